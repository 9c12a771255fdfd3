//! Two clusters, and two commands on one.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use super::{assert_works, cluster, delete_without_trace, said};
use crate::lab::{Cluster, Running};

pub(crate) fn two_clusters_do_not_meet() {
    let (one, _) = cluster("one");
    one.start(&[]);
    let (two, before_two) = cluster("two");
    two.start(&[]);
    assert_works(&one, "of-one");
    assert_works(&two, "of-two");
    let ranges = |cluster: &Cluster| {
        let node = cluster.get(&["node", &cluster.name]);
        [node["spec"]["podCIDR"].clone(), Value::from(cluster.ip())]
    };
    let [(pods_one, ip_one), (pods_two, ip_two)] =
        [&one, &two].map(|cluster| ranges(cluster).map(|value| value.to_string()).into());
    assert_ne!(pods_one, pods_two);
    assert_ne!(ip_one, ip_two);
    let pods = |cluster: &Cluster| cluster.field(&["pods"], "{.items[*].metadata.name}");
    assert_eq!((pods(&one).as_str(), pods(&two).as_str()), ("of-one", "of-two"));

    // Each node reaches its own API, and neither the other cluster nor an address of it as its sender.
    let ask =
        |ip: &str| format!("curl -sk --connect-timeout 2 https://{}:6443/version", ip.trim_matches('"'));
    assert!(one.ssh(&ask(&ip_one)).contains("gitVersion"));
    assert!(one.try_ssh(&ask(&ip_two)).is_err(), "the API of another cluster");
    let claim = "ip address add 10.213.99.99/32 dev eth0";
    let spoofed = "ping -c 1 -W 1 -I 10.213.99.99 host.flotilla.internal";
    assert!(one.ssh("ping -c 1 -W 5 host.flotilla.internal").contains("1 packets received"));
    assert!(one.try_ssh(&format!("{claim} && {spoofed}")).is_err(), "a sender that is not the node's");
    one.ssh("ip address del 10.213.99.99/32 dev eth0");

    delete_without_trace(&two, &before_two, "the second of two clusters");
    assert_works(&one, "still");
}

/// Leaves the cluster running, which was not there.
pub(super) fn the_second_command_waits_or_says_who_is_first(cluster: &Cluster) {
    let mut first = Running::start(&mut cluster.command(&["start"]));
    assert!(first.wait_for_step(&format!("api/{}", cluster.name)));
    let holder = format!("process {}", first.pid());

    first.signal(Signal::STOP);
    let refused = cluster.run(&["start", "--no-wait-lock"]);
    assert_eq!(refused.status.code(), Some(11), "{}", said(&refused));
    assert!(said(&refused).contains(&holder), "{}", said(&refused));
    let status = cluster.run(&["status"]);
    assert!(said(&status).contains("host: Running"), "it answers meanwhile: {}", said(&status));
    let mut second = Running::start(cluster.command(&["start"]).stderr(Stdio::inherit()));
    assert!(
        second.wait_for(|event| event["data"]["message"].as_str().is_some_and(|text| text.contains(&holder)))
    );
    first.signal(Signal::CONT);

    let (first, last) = first.finish();
    assert_eq!(first, 0, "{last}");
    let (second, last) = second.finish();
    assert_eq!(second, 0, "{last}");
    assert_eq!(last["data"]["changed"], "false", "the first has done it all: {last}");
}
