//! Ways between the pods, the nodes and the host.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

use flotilla_linux::net::{AddressInfo, Net};

use super::fleet::{self, NODE_PORT, POD_PORT};
use crate::cluster::network::get;
use crate::lab::{Cluster, PATIENCE, wait_until};

pub(super) fn nodes_are_ready_and_have_roles(cluster: &Cluster) {
    let nodes = fleet::list(cluster);
    assert_eq!(nodes.len(), 3);
    for (index, node) in nodes.iter().enumerate() {
        let (name, role) = (node["Name"].as_str().unwrap(), node["Role"].as_str().unwrap());
        assert_eq!(role, if index == 0 { "control-plane" } else { "worker" }, "{name}");
        assert_eq!(node["Status"], "Running", "{name}");
        let row = cluster.kubectl(&["get", "node", name, "--no-headers"]);
        assert_eq!(row.split_whitespace().skip(1).take(2).collect::<Vec<_>>(), ["Ready", role], "{row}");
    }
    assert!(cluster.run(&["status"]).status.success());
}

pub(super) fn pod_ranges_are_the_nodes_own(cluster: &Cluster) {
    let mut ranges = BTreeSet::new();
    for node in fleet::list(cluster) {
        let name = node["Name"].as_str().unwrap();
        let range = cluster.field(&["node", name], "{.spec.podCIDR}");
        assert_eq!(node["PodCIDR"], range.as_str(), "{name}");
        let address = cluster.field(&["node", name], "{.status.addresses[?(@.type=='InternalIP')].address}");
        assert_eq!(node["IP"], address.as_str(), "{name}");
        assert_eq!(cluster.succeed(&["node", "ip", "-n", name]).trim(), address);
        ranges.insert(range);
    }
    assert_eq!(ranges.len(), fleet::names(cluster).len(), "{ranges:?}");
    for probe in fleet::probes(cluster) {
        let range = cluster.field(&["node", &probe.node], "{.spec.podCIDR}");
        let prefix = range.strip_suffix("0/24").unwrap();
        assert!(probe.ip.starts_with(prefix), "{probe:?} is not in {range}");
    }
}

pub(super) fn every_pod_reaches_every_other(cluster: &Cluster) {
    let probes = fleet::probes(cluster);
    for from in &probes {
        for to in &probes {
            assert_eq!(from.page(cluster, &format!("{}:{POD_PORT}", to.ip)), to.node);
        }
    }
}

pub(super) fn the_host_reaches_pods_and_ports(cluster: &Cluster) {
    let probes = fleet::probes(cluster);
    for probe in &probes {
        assert_eq!(page(&probe.ip, POD_PORT), probe.node);
        let address = cluster.succeed(&["ip", "-n", &probe.node]);
        let answered = page(address.trim(), NODE_PORT);
        assert!(probes.iter().any(|probe| probe.node == answered), "{answered}");
    }
}

pub(super) fn every_node_reaches_every_pod(cluster: &Cluster) {
    let probes = fleet::probes(cluster);
    for node in fleet::names(cluster) {
        for to in &probes {
            let line = format!("busybox timeout 10 busybox wget -qO- http://{}:{POD_PORT}", to.ip);
            assert_eq!(fleet::ssh(cluster, &node, &line), to.node, "from {node}");
        }
    }
}

/// Each has routes to the pods of all others, and no other routes to pods.
pub(super) fn every_node_knows_the_ways(cluster: &Cluster) {
    let nodes = fleet::list(cluster);
    let text = |node: &serde_json::Value, key: &str| node[key].as_str().unwrap().to_owned();
    for node in &nodes {
        let others = nodes.iter().filter(|other| other["Name"] != node["Name"]);
        let wanted: BTreeSet<_> = others.map(|it| (text(it, "PodCIDR"), text(it, "IP"))).collect();
        let table = fleet::ssh(cluster, &text(node, "Name"), "ip -4 route show");
        let ways = table.lines().filter_map(|line| {
            let (range, way) = line.split_once(" via ")?;
            let next = way.split_whitespace().next()?;
            (range != "default").then(|| (range.to_owned(), next.to_owned()))
        });
        assert_eq!(ways.collect::<BTreeSet<_>>(), wanted, "{}", node["Name"]);
    }
}

pub(super) fn a_service_is_reached_from_every_node(cluster: &Cluster) {
    let probes = fleet::probes(cluster);
    for from in &probes {
        from.page(cluster, "any");
        // Of so many calls one goes to another node.
        let line = "for i in $(seq 40); do busybox timeout 10 wget -qO- http://any; done";
        let answers = from.run(cluster, line).unwrap();
        let answered: BTreeSet<_> = answers.lines().collect();
        assert!(answered.len() > 1, "{}: {answered:?}", from.node);
    }
}

pub(super) fn udp_crosses_nodes(cluster: &Cluster) {
    let dns = cluster.get(&["pods", "-n", "kube-system", "-l", "k8s-app=kube-dns"]);
    let server = dns["items"][0]["status"]["podIP"].as_str().unwrap().to_owned();
    let place = dns["items"][0]["spec"]["nodeName"].as_str().unwrap();
    let probes = fleet::probes(cluster);
    let service = cluster.field(&["service", "-n", "kube-system", "kube-dns"], "{.spec.clusterIP}");
    for from in probes.iter().filter(|probe| probe.node != place) {
        for server in [&server, &service] {
            let line = format!("nslookup kubernetes.default.svc.cluster.local {server}");
            let answer = wait_until(&line, PATIENCE, || from.run(cluster, &line));
            assert!(answer.contains("Address: 10.96.0.1"), "{}: {answer}", from.node);
        }
    }
}

pub(super) fn small_and_large_answers_cross_nodes(cluster: &Cluster) {
    let probes = fleet::probes(cluster);
    let [_, from, to] = &probes[..] else { panic!("{probes:?}") };
    for (file, size) in [("small", "1400"), ("large", "61440")] {
        let line = format!("busybox timeout 10 wget -qO- http://{}:{POD_PORT}/{file} | busybox wc -c", to.ip);
        assert_eq!(from.run(cluster, &line).unwrap(), size);
    }
    // A pod takes the link of its node for as wide as it is, so packets of that size have crossed.
    let mtu = "cat /sys/class/net/eth0/mtu";
    assert_eq!(from.run(cluster, mtu).unwrap(), fleet::ssh(cluster, &from.node, mtu));
}

pub(super) fn a_pod_reaches_itself_by_its_service(cluster: &Cluster) {
    let probe = &fleet::probes(cluster)[1];
    cluster.kubectl(&["label", "pod", &probe.pod, "only=me"]);
    cluster.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: me}, \
          spec: {selector: {only: me}, ports: [{port: 80, targetPort: 8080}]}}",
    );
    assert_eq!(probe.page(cluster, "me"), probe.node);
    cluster.kubectl(&["delete", "service", "me"]);
}

pub(super) fn a_client_keeps_its_server_if_asked_to(cluster: &Cluster) {
    for from in fleet::probes(cluster) {
        let first = from.page(cluster, "same");
        let line = "for i in $(seq 20); do busybox timeout 10 wget -qO- http://same; done";
        let answers = from.run(cluster, line).unwrap();
        assert!(answers.lines().all(|answer| answer == first), "{}: {first}, then {answers}", from.node);
    }
}

/// The host sees pods under their own addresses at its address in the cluster's network. Its other addresses do not answer
/// them, so that services of the host are reachable only where the documentation says so.
pub(super) fn pods_reach_the_host_at_the_gateway_alone(cluster: &Cluster) {
    let gateway: Ipv4Addr = cluster.ssh("ip -4 route show default | cut -d ' ' -f 3").parse().unwrap();
    let addresses = Net::here().unwrap().addresses().unwrap();
    let is_another = |it: &&AddressInfo| !it.link.starts_with("flo") && !it.address.addr().is_loopback();
    let another = addresses.iter().find(is_another).map(|it| it.address.addr());
    if another.is_none() {
        flotilla_testkit::does_not_apply("in part: the host has no address but those of clusters");
    }
    let server = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = server.local_addr().unwrap().port();
    server.set_nonblocking(true).unwrap();
    for from in fleet::probes(cluster) {
        // Nobody answers: it matters who calls.
        let call = |to: Ipv4Addr, seconds: u32| {
            let line = format!("busybox timeout {seconds} wget -qO- http://{to}:{port}");
            assert!(from.run(cluster, &line).is_err());
        };
        if let Some(another) = another {
            call(another, 2);
            assert!(server.accept().is_err(), "{} reached the host at {another}", from.node);
        }
        call(gateway, 10);
        let (_, caller) = server.accept().unwrap();
        assert_eq!(caller.ip(), from.ip.parse::<IpAddr>().unwrap(), "from {}", from.node);
    }
}

/// The page there, as the host gets it.
#[track_caller]
pub(super) fn page(host: &str, port: u16) -> String {
    wait_until(&format!("the page at {host}:{port}"), PATIENCE, || {
        let page = get(host, port).map_err(|error| error.to_string())?;
        let (head, body) = page.split_once("\r\n\r\n").ok_or("no answer")?;
        if head.contains(" 200 ") { Ok(body.trim().to_owned()) } else { Err(head.to_owned()) }
    })
}
