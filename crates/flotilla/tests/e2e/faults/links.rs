//! The host's side of the network is taken away while the node runs.

use super::kernel;
use crate::lab::{self, Cluster, PATIENCE};

/// The API answers on its address, and a pod's address is reached from the host.
fn assert_reached(cluster: &Cluster) {
    cluster.kubectl(&["get", "nodes"]);
    let pod = cluster.field(&["pod", "web"], "{.status.podIP}");
    lab::wait_until("a pod is reached from the host", PATIENCE, || {
        let address = format!("{pod}:8080").parse().unwrap();
        std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(2))
            .map_err(|error| error.to_string())
    });
}

pub(super) fn start_repairs_the_network(cluster: &Cluster) {
    let busybox = lab::bundle().join("rootfs/bin/busybox");
    cluster.load_image(&flotilla_testkit::image::busybox(&busybox));
    cluster.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: '{}', imagePullPolicy: Never, command: [httpd, -f, -p, '8080', -h, /etc]}}
",
        flotilla_testkit::image::BUSYBOX
    ));
    cluster.wait_for("condition=Ready", &["pod", "web"]);
    assert_reached(cluster);
    let init = kernel::init(cluster);
    let bridge = kernel::bridge(cluster);

    let cuts: [(&str, &dyn Fn()); 3] = [
        ("the node's link", &|| kernel::delete_link(&kernel::port(cluster))),
        ("the bridge", &|| kernel::delete_link(&bridge)),
        ("the packet rules", &|| kernel::delete_rules(&bridge)),
    ];
    for (what, cut) in cuts {
        cut();
        cluster.start(&[]);
        assert_eq!(kernel::init(cluster), init, "the node was booted anew for {what}");
        assert_reached(cluster);
        assert!(cluster.start(&[]).contains("nothing to do"), "something is still missing after {what}");
    }
    cluster.kubectl(&["delete", "pod", "web"]);
}
