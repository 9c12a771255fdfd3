//! The host's side of the network is taken away while the node runs.

use flotilla_linux::host::Command;
use flotilla_linux::net::Net;
use flotilla_linux::sysctl;

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

    let set = |setting: &str, value: &str| drop(sysctl::set(setting, value).unwrap());
    let ip = |args: &str| drop(Command::new("ip").args(args.split(' ')).run().unwrap());
    let mtu = Net::here().unwrap().find_link(&bridge).unwrap().unwrap().mtu;
    let cuts: [(&str, &dyn Fn()); 7] = [
        ("the node's link", &|| kernel::delete_link(&kernel::port(cluster))),
        ("the bridge", &|| kernel::delete_link(&bridge)),
        ("the packet rules", &|| kernel::delete_rules(&bridge)),
        ("forwarding", &|| set("net/ipv4/ip_forward", "0")),
        ("forwarding of the bridge", &|| set(&format!("net/ipv4/conf/{bridge}/forwarding"), "0")),
        ("the size of packets", &|| {
            Net::here().unwrap().ensure_mtu(&bridge, 1281).unwrap();
        }),
        // It keeps its address and loses all routes.
        ("the routes", &|| {
            ip(&format!("link set {bridge} down"));
            ip(&format!("link set {bridge} up"));
        }),
    ];
    for (what, cut) in cuts {
        cut();
        cluster.start(&[]);
        assert_eq!(kernel::init(cluster), init, "the node was rebooted for {what}");
        assert_reached(cluster);
        assert!(cluster.start(&[]).contains("nothing to do"), "something is still missing after {what}");
    }
    for setting in ["net/ipv4/ip_forward".to_owned(), format!("net/ipv4/conf/{bridge}/forwarding")] {
        assert_eq!(sysctl::get(&setting).unwrap(), "1", "{setting}");
    }
    assert_eq!(Net::here().unwrap().find_link(&bridge).unwrap().unwrap().mtu, mtu);
    cluster.kubectl(&["delete", "pod", "web"]);
}
