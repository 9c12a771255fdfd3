//! Which machine has the virtual IP, with real keepalived. A file in each machine says whether its API server is healthy.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::Cluster;
use flotilla_core::cluster::API_IS_COMING;
use flotilla_core::{Changed, Machine};
use flotilla_spec::{NodeSpec, Role};
use flotilla_testkit::contract::{Case, Subject, cases};

use crate::sh;

pub(crate) const CASES: &[(&str, Case)] = cases![
    the_api_address_is_with_one_that_is_well_and_stays_there,
    who_makes_the_cluster_has_the_api_address_before_its_server_is_well,
    the_api_address_leaves_who_is_stopped_or_killed,
    a_second_control_plane_leaves_the_api_address_where_it_is,
    one_that_was_one_of_several_has_the_api_address_to_itself,
];

/// Nothing here takes that long unless it never comes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Stands in for the program that asks the API server.
const CURL: &str = "#!/bin/sh\ntest -e /run/api-is-well\n";

fn with_control_planes(cluster: &Cluster, count: u32) -> Cluster {
    let mut cluster = cluster.clone();
    for number in 2..=count {
        let name: flotilla_spec::NodeName = format!("te-contract-m{number:02}").parse().unwrap();
        cluster.spec.nodes.push(NodeSpec::plain(name, Role::ControlPlane));
    }
    cluster.allocate().unwrap();
    cluster
}

/// Boots the machines; no API server is well.
async fn boot(subject: Subject<'_>, cluster: &Cluster) -> Vec<Arc<dyn Machine>> {
    subject.make_network(cluster).await;
    let mut machines = Vec::new();
    for node in &cluster.spec.nodes {
        let machine = subject.ensure(cluster, &node.name).await.unwrap();
        machine.guest().write("/usr/bin/curl", 0o755, CURL.as_bytes()).await.unwrap();
        machines.push(machine);
    }
    machines
}

async fn has_address(machine: &dyn Machine, cluster: &Cluster) -> bool {
    let addresses = sh(machine, "ip -o -4 address show dev eth0").await;
    addresses.contains(&format!(" {}/32 ", cluster.virtual_ip()))
}

/// The positions of the machines that have the address.
async fn holders(machines: &[Arc<dyn Machine>], cluster: &Cluster) -> Vec<usize> {
    let mut holders = Vec::new();
    for (place, machine) in machines.iter().enumerate() {
        if has_address(&**machine, cluster).await {
            holders.push(place);
        }
    }
    holders
}

/// Waits until exactly one has the address, one of those that may.
async fn holder(machines: &[Arc<dyn Machine>], cluster: &Cluster) -> usize {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let [holder] = holders(machines, cluster).await[..] {
                return holder;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    found.await.expect("one of them takes the address")
}

async fn the_api_address_is_with_one_that_is_well_and_stays_there(subject: Subject<'_>, cluster: &Cluster) {
    let cluster = with_control_planes(cluster, 3);
    let machines = boot(subject, &cluster).await;
    // The last one, which has the lowest priority.
    sh(&*machines[2], "touch /run/api-is-well").await;
    assert_eq!(holder(&machines, &cluster).await, 2);
    for machine in &machines {
        sh(&**machine, "touch /run/api-is-well").await;
    }
    // All have looked again when all have said so.
    for machine in &machines[..2] {
        said(&**machine, "Entering BACKUP STATE").await;
    }
    assert_eq!(holders(&machines, &cluster).await, [2], "no other machine takes it from a healthy one");

    sh(&*machines[2], "rm /run/api-is-well").await;
    said(&*machines[2], "Entering FAULT STATE").await;
    assert_ne!(holder(&machines, &cluster).await, 2);
    assert_eq!(subject.configure(&cluster).await, Changed::No, "there is nothing to tell");
}

async fn who_makes_the_cluster_has_the_api_address_before_its_server_is_well(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    let cluster = with_control_planes(cluster, 2);
    let machines = boot(subject, &cluster).await;
    machines[1].guest().write(API_IS_COMING, 0o644, b"").await.unwrap();
    assert_eq!(holder(&machines, &cluster).await, 1);
    for machine in &machines {
        sh(&**machine, "touch /run/api-is-well").await;
    }
    said(&*machines[0], "Entering BACKUP STATE").await;
    assert_eq!(holders(&machines, &cluster).await, [1]);
    // It is well, so from here on it counts when it is not.
    let gone = format!("until [ ! -e {API_IS_COMING} ]; do sleep 0.1; done; rm /run/api-is-well");
    sh(&*machines[1], &gone).await;
    assert_eq!(holder(&machines[..1], &cluster).await, 0);
}

/// Waits until the machine's keepalived has said something.
async fn said(machine: &dyn Machine, what: &str) {
    let line = format!("grep -q '{what}' /var/log/flotilla/keepalived.log && echo yes || true");
    let said = tokio::time::timeout(PATIENCE, async {
        while sh(machine, &line).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    said.await.unwrap_or_else(|_| panic!("{} does not say {what}", machine.name()));
}

async fn the_api_address_leaves_who_is_stopped_or_killed(subject: Subject<'_>, cluster: &Cluster) {
    let cluster = with_control_planes(cluster, 3);
    let mut machines = boot(subject, &cluster).await;
    for machine in &machines {
        sh(&**machine, "touch /run/api-is-well").await;
    }
    let stopped = machines.remove(holder(&machines, &cluster).await);
    subject.stop_node(&cluster, stopped.name()).await;
    let killed = machines.remove(holder(&machines, &cluster).await);
    kill(&*killed).await;
    assert_eq!(holder(&machines, &cluster).await, 0, "the last one has it");
}

/// Kills the machine's PID 1, which only the host can.
async fn kill(machine: &dyn Machine) {
    let namespace = sh(machine, "readlink /proc/self/ns/pid").await;
    let is_init = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        let own = fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap_or_default();
        own.as_os_str() == namespace.as_str() && numbers.split_whitespace().next_back() == Some("1")
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let init = pids.find(is_init).expect("it has a PID 1");
    let init = rustix::process::Pid::from_raw(init).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
}

async fn a_second_control_plane_leaves_the_api_address_where_it_is(subject: Subject<'_>, cluster: &Cluster) {
    let one = with_control_planes(cluster, 1);
    let machines = boot(subject, &one).await;
    sh(&*machines[0], "touch /run/api-is-well").await;
    assert_eq!(sh(&*machines[0], "systemctl is-active keepalived || true").await, "activating");
    assert_eq!(holder(&machines, &one).await, 0, "the address sits on it");

    let two = with_control_planes(cluster, 2);
    assert_eq!(subject.configure(&two).await, Changed::Yes);
    let machines = boot(subject, &two).await;
    assert_eq!(holder(&machines, &two).await, 0, "it still has it, or has it again");
    said(&*machines[0], "Entering MASTER STATE").await;
    sh(&*machines[1], "touch /run/api-is-well").await;
    said(&*machines[1], "Entering BACKUP STATE").await;
    assert_eq!(holder(&machines, &two).await, 0);
    // Whoever gave it the address, keepalived takes it away.
    sh(&*machines[0], "rm /run/api-is-well").await;
    said(&*machines[0], "Entering FAULT STATE").await;
    assert_eq!(holder(&machines, &two).await, 1);
}

async fn one_that_was_one_of_several_has_the_api_address_to_itself(subject: Subject<'_>, cluster: &Cluster) {
    let two = with_control_planes(cluster, 2);
    let machines = boot(subject, &two).await;
    assert_eq!(sh(&*machines[0], "systemctl is-active keepalived").await, "active");
    for machine in machines {
        subject.stop_node(cluster, machine.name()).await;
    }
    let one = with_control_planes(cluster, 1);
    let machines = boot(subject, &one).await;
    assert_eq!(holder(&machines, &one).await, 0);
    assert_eq!(sh(&*machines[0], "systemctl is-active keepalived || true").await, "activating");
}
