//! Names, services and ways between pods, node and host.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::workloads::{GREETING, NODE_PORT, in_client};
use crate::lab::{Cluster, PATIENCE, wait_until};

pub(super) fn a_service_is_reached_by_its_name(cluster: &Cluster) {
    for (name, address) in [
        ("kubernetes.default.svc.cluster.local", "10.96.0.1"),
        ("web.default.svc.cluster.local", &cluster.field(&["service", "web"], "{.spec.clusterIP}")),
    ] {
        let answer = wait_until(name, PATIENCE, || in_client(cluster, &format!("nslookup {name}")));
        assert!(answer.contains(&format!("Address: {address}\n")), "{name}: {answer}");
    }
    web_answers_in_client(cluster);
}

pub(super) fn the_host_reaches_node_ports_and_pods(cluster: &Cluster) {
    let pods = cluster.field(&["pods", "-l", "app=web"], "{.items[*].status.podIP}");
    assert_eq!(pods.split_whitespace().count(), 2, "{pods}");
    for pod in pods.split_whitespace() {
        web_answers_at(pod, 8080);
    }
    web_answers_at(&cluster.ip(), NODE_PORT);
}

pub(super) fn nodes_and_pods_know_the_host_by_name(cluster: &Cluster) {
    let gateway = gateway(cluster);
    for name in ["host.flotilla.internal", "host.minikube.internal"] {
        let node = cluster.ssh(&format!("ping -c 1 {name}"));
        assert!(node.contains(&format!("PING {name} ({gateway})")), "in the node: {node}");
        let pod = wait_until(name, PATIENCE, || in_client(cluster, &format!("nslookup {name}")));
        assert!(pod.contains(&format!("Address: {gateway}\n")), "in a pod: {pod}");
    }
    // A server of the person's own, on all of the host's addresses.
    let server = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let serving = thread::spawn(move || serve(&server, 2));
    let line = format!("http://host.flotilla.internal:{port}");
    assert_eq!(in_client(cluster, &format!("wget -qO- {line}")).unwrap(), "from the host");
    assert_eq!(cluster.ssh(&format!("curl -s {line}")), "from the host");
    serving.join().unwrap();
}

/// kube-proxy writes all rules again after an hour, and when a node's zone changes.
pub(super) fn services_outlive_a_full_writing_of_rules(cluster: &Cluster) {
    let full = "curl -s http://127.0.0.1:10249/metrics \
        | sed -n 's/^kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} //p'";
    let before = cluster.ssh(full);
    cluster.kubectl(&["label", "node", &cluster.name, "topology.kubernetes.io/zone=here"]);
    wait_until("all rules are written again", PATIENCE, || {
        if cluster.ssh(full) == before { Err(before.clone()) } else { Ok(()) }
    });
    let code = "curl -sk --max-time 10 -o /dev/null -w '%{http_code}' https://10.96.0.1/version";
    assert_eq!(cluster.ssh(code), "200");
    cluster.kubectl(&["label", "node", &cluster.name, "topology.kubernetes.io/zone-"]);
}

pub(super) fn the_proxy_uses_nftables(cluster: &Cluster) {
    let asked = "curl -s http://127.0.0.1:10249/proxyMode";
    assert_eq!(wait_until("the proxy", PATIENCE, || cluster.try_ssh(asked)), "nftables");
    assert!(cluster.ssh("nft list table ip kube-proxy").contains("default/web/tcp/"));
}

/// The host, as the nodes of the cluster see it.
fn gateway(cluster: &Cluster) -> String {
    cluster.ssh("ip -4 route show default | cut -d ' ' -f 3")
}

/// Waits until the web server greets a pod that calls it by its name.
pub(super) fn web_answers_in_client(cluster: &Cluster) {
    let page = wait_until("the page, in a pod", PATIENCE, || in_client(cluster, "wget -qO- http://web"));
    assert_eq!(page.trim(), GREETING);
}

/// Waits until the web server greets the host there.
///
/// In a node that was stopped, another pod may have the address for as long as the API server has not heard of it.
pub(super) fn web_answers_at(host: &str, port: u16) {
    wait_until(&format!("the greeting at {host}:{port}"), PATIENCE, || {
        let page = get(host, port).map_err(|error| error.to_string())?;
        if page.trim().ends_with(GREETING) { Ok(()) } else { Err(page) }
    });
}

pub(crate) fn get(host: &str, port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET / HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// Answers so many callers and ends.
fn serve(server: &TcpListener, callers: usize) {
    for stream in server.incoming().take(callers) {
        let mut stream = stream.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).unwrap() > 0);
        let page = "from the host";
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len()).unwrap();
    }
}
