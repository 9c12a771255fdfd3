//! Settings of a single node: a bundle, settings of its kubelet, directories and ports of the host.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use super::fleet::{self, NODE_PORT};
use super::network::page;
use crate::faults::said;
use crate::host_state;
use crate::lab::{self, Cluster, PATIENCE, wait_until};

/// The node that has all of it.
pub(super) const RICH: &str = "tn-rich";
/// The other worker, which has nothing.
pub(super) const PLAIN: &str = "tn-own-m02";
/// The names of its directories in the node.
const WRITABLE: &str = "/mnt/writable";
const READABLE: &str = "/mnt/readable";
/// The port of every node on which the cluster's name server answers.
const DNS_PORT: u16 = 30053;

pub(super) fn a_nodes_name_is_its_own_in_all_clusters(cluster: &Cluster) {
    let refused = lab::run(&lab::real_home(), &["-p", PLAIN, "start"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains(&cluster.name), "it tells whose it is: {}", said(&refused));
    let status = lab::run(&lab::real_home(), &["-p", PLAIN, "status"]);
    assert_eq!(status.status.code(), Some(85), "there is none: {}", said(&status));
    assert!(!lab::real_home().join("clusters").join(PLAIN).exists(), "nothing is left of the attempt");
}

pub(super) fn a_node_is_added_with_all_that_there_is(cluster: &Cluster) {
    let [writable, readable] = directories(cluster);
    for directory in [&writable, &readable] {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("word"), "of the host\n").unwrap();
    }
    fs::write(cluster.kubeconfig().with_file_name("port"), free_port().to_string()).unwrap();
    fs::write(cluster.kubeconfig().with_file_name("udp-port"), free_port().to_string()).unwrap();
    cluster.succeed(&[
        "node",
        "add",
        RICH,
        "--bundle",
        &lab::digest()[..12],
        "--extra-config",
        "kubelet.max-pods=33",
        "--feature-gates",
        "AllAlpha=false",
        "--mount",
        &format!("{}:{WRITABLE}", writable.display()),
        "--mount",
        &format!("{}:{READABLE}:ro", readable.display()),
        "--port",
        &format!("{}:{NODE_PORT}", port(cluster, "port")),
        "--port",
        &format!("{}:{DNS_PORT}/udp", port(cluster, "udp-port")),
    ]);
    fleet::load_image(cluster, RICH);
    assert_eq!(fleet::readiness(cluster, RICH), "True");
    fleet::probes(cluster);
}

pub(super) fn its_settings_are_its_own(cluster: &Cluster) {
    for (node, pods) in [(RICH, "33"), (PLAIN, "110")] {
        assert_eq!(cluster.field(&["node", node], "{.status.capacity.pods}"), pods, "{node}");
    }
    let gates = |node: &str| {
        let path = format!("/api/v1/nodes/{node}/proxy/configz");
        let reported: serde_json::Value =
            serde_json::from_str(&cluster.kubectl(&["get", "--raw", &path])).unwrap();
        reported["kubeletconfig"]["featureGates"]["AllAlpha"].clone()
    };
    assert_eq!(gates(RICH), false);
    assert!(gates(PLAIN).is_null());
}

pub(super) fn directories_of_the_host_are_in_it(cluster: &Cluster) {
    let [writable, readable] = directories(cluster);
    for directory in [WRITABLE, READABLE] {
        assert_eq!(fleet::ssh(cluster, RICH, &format!("cat {directory}/word")), "of the host");
    }
    fleet::ssh(cluster, RICH, &format!("echo of the node > {WRITABLE}/answer"));
    assert_eq!(fs::read_to_string(writable.join("answer")).unwrap(), "of the node\n");
    let refused = cluster.run(&["ssh", "-n", RICH, "--", &format!("touch {READABLE}/answer")]);
    assert!(said(&refused).contains("Read-only file system"), "{}", said(&refused));
    assert!(!readable.join("answer").exists());

    cluster.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: reader}}
spec:
  nodeName: {RICH}
  restartPolicy: Never
  containers:
  - name: main
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [cp, /readable/word, /writable/copy]
    volumeMounts: [{{name: readable, mountPath: /readable}}, {{name: writable, mountPath: /writable}}]
  volumes:
  - {{name: readable, hostPath: {{path: {READABLE}}}}}
  - {{name: writable, hostPath: {{path: {WRITABLE}}}}}
"
    ));
    cluster.wait_for("jsonpath={.status.phase}=Succeeded", &["pod", "reader"]);
    assert_eq!(fs::read_to_string(writable.join("copy")).unwrap(), "of the host\n");
    cluster.kubectl(&["delete", "pod", "reader"]);
}

pub(super) fn ports_of_the_host_lead_to_it(cluster: &Cluster) {
    let answered = page("127.0.0.1", port(cluster, "port"));
    assert!(fleet::names(cluster).contains(&answered), "{answered}");

    cluster.apply(&format!(
        "apiVersion: v1
kind: Service
metadata: {{name: names, namespace: kube-system}}
spec:
  type: NodePort
  selector: {{k8s-app: kube-dns}}
  ports: [{{port: 53, protocol: UDP, nodePort: {DNS_PORT}}}]
"
    ));
    wait_until("a name is resolved through a port of the host", PATIENCE, || {
        let address = ask_name_server(port(cluster, "udp-port")).map_err(|error| error.to_string())?;
        if address == Ipv4Addr::new(10, 96, 0, 1) { Ok(()) } else { Err(address.to_string()) }
    });

    // Only what the host itself calls: neither the nodes nor anybody behind them.
    let gateway = cluster.ssh("ip -4 route show default | cut -d ' ' -f 3");
    let line = format!("curl -sS -m 3 http://{gateway}:{}", port(cluster, "port"));
    assert!(cluster.try_ssh(&line).is_err());
}

pub(super) fn a_port_that_is_taken_is_refused(cluster: &Cluster) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [port(cluster, "port"), listener.local_addr().unwrap().port()] {
        let refused = cluster.run(&["node", "add", "tn-late", "--port", &format!("{port}:80")]);
        assert!(!refused.status.success(), "{}", said(&refused));
        assert!(said(&refused).contains(&port.to_string()), "{}", said(&refused));
        assert!(!fleet::names(cluster).iter().any(|name| name == "tn-late"));
    }
}

pub(super) fn deleted_its_ports_are_gone(cluster: &Cluster) {
    cluster.succeed(&["node", "delete", RICH]);
    let error = TcpStream::connect(("127.0.0.1", port(cluster, "port"))).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let rules = host_state::rules();
    assert!(!rules.contains(&format!("dport {}", port(cluster, "port"))), "{rules}");
    for directory in directories(cluster) {
        assert!(directory.join("word").exists(), "what is the host's stays");
    }
}

/// The directories of the host that it mounts: one to write to, one to read.
fn directories(cluster: &Cluster) -> [PathBuf; 2] {
    ["writable", "readable"].map(|name| cluster.kubeconfig().with_file_name(name))
}

/// A port of the host's that an earlier part has chosen.
fn port(cluster: &Cluster, name: &str) -> u16 {
    fs::read_to_string(cluster.kubeconfig().with_file_name(name)).unwrap().parse().unwrap()
}

/// A free port, for TCP and for UDP.
pub(super) fn free_port() -> u16 {
    let chosen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    UdpSocket::bind(chosen).unwrap();
    chosen.port()
}

/// The address of the API's service, as the name server behind a port of the host tells it.
fn ask_name_server(port: u16) -> std::io::Result<Ipv4Addr> {
    let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["kubernetes", "default", "svc", "cluster", "local"] {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.as_bytes());
    }
    // The root; an address of the internet.
    question.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.connect(("127.0.0.1", port))?;
    socket.send(&question)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    // The only answer's address is the last of it.
    let address: [u8; 4] = answer[..length].last_chunk().copied().unwrap_or_default();
    Ok(address.into())
}
