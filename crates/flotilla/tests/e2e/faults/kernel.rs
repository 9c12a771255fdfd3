//! What a cluster has in the kernel, found and destroyed without Flotilla.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flotilla_linux::net::{LinkInfo, Net};
use flotilla_linux::nft::Nft;
use rustix::process::{Pid, Signal, kill_process};

use crate::host_state;
use crate::lab::{self, Cluster};

/// Its control groups in every hierarchy, those of its node and what is below too.
fn groups(cluster: &Cluster) -> Vec<PathBuf> {
    let prefix = format!("{}-", cluster.name);
    let is_ours = |group: &Path| {
        let mut parts = group.iter().skip_while(|part| *part != "flotilla").skip(1);
        parts.next().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    host_state::groups().into_iter().filter(|group| is_ours(group)).collect()
}

/// Everything that runs in it.
pub(crate) fn processes(cluster: &Cluster) -> BTreeSet<i32> {
    processes_in(&groups(cluster))
}

fn processes_in(groups: &[PathBuf]) -> BTreeSet<i32> {
    let text = groups
        .iter()
        .map(|group| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default())
        .collect::<String>();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// A file of the control group in which the host limits a node, which the node cannot see: by its name in v1, else in v2.
fn group_file(cluster: &Cluster, node: &str, names: [&str; 2]) -> PathBuf {
    let own: Vec<_> = groups(cluster).into_iter().filter(|group| group.ends_with(node)).collect();
    let mut files = names.iter().flat_map(|name| own.iter().map(move |group| group.join(name)));
    files
        .find(|file| file.exists())
        .unwrap_or_else(|| panic!("no group of {node} has one of {names:?}: {own:?}"))
}

/// What the host has set or counted for a node.
pub(crate) fn group_value(cluster: &Cluster, node: &str, names: [&str; 2]) -> String {
    fs::read_to_string(group_file(cluster, node, names)).unwrap().trim().to_owned()
}

/// Percent of one CPU that a node may use.
pub(crate) fn cpu_limit(cluster: &Cluster, node: &str) -> u32 {
    let quota = group_value(cluster, node, ["cpu.cfs_quota_us", "cpu.max"]);
    quota.split_whitespace().next().unwrap().parse::<u32>().unwrap() / 1000
}

/// How often a node was held back because it had used up its CPU time.
pub(crate) fn times_throttled(cluster: &Cluster, node: &str) -> u64 {
    let stat = group_file(cluster, node, ["cpu.cfs_quota_us", "cpu.max"]).with_file_name("cpu.stat");
    let text = fs::read_to_string(stat).unwrap();
    text.lines().find_map(|line| line.strip_prefix("nr_throttled ")).unwrap().parse().unwrap()
}

/// Freezes all processes of its only node, PID 1 among them, as a person may do it.
pub(crate) fn freeze(cluster: &Cluster) {
    let file = group_file(cluster, &cluster.name, ["freezer.state", "cgroup.freeze"]);
    let value = if file.ends_with("freezer.state") { "FROZEN" } else { "1" };
    fs::write(file, value).unwrap();
}

/// Leaves a node so many percent of one CPU, as a machine does that is slow or busy.
pub(crate) fn throttle(cluster: &Cluster, node: &str, percent: u32) {
    // v2 takes the quota alone, too, and keeps the period: 100 ms in both.
    fs::write(group_file(cluster, node, ["cpu.cfs_quota_us", "cpu.max"]), format!("{}", percent * 1000))
        .unwrap();
}

/// The PID 1 of its only node, as the host numbers it.
pub(crate) fn init(cluster: &Cluster) -> i32 {
    init_of(cluster, &cluster.name)
}

/// The PID 1 of one of its nodes, as the host numbers it.
pub(crate) fn init_of(cluster: &Cluster, node: &str) -> i32 {
    let is_init = |pid: &i32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // A service is called like that as well, until it has become its own program.
        let is_first = read("status").lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"));
        is_first && read("cmdline").starts_with("flotilla-init\0__node-init")
    };
    let mut groups = groups(cluster);
    groups.retain(|group| group.iter().any(|part| part == node));
    let found: Vec<_> = processes_in(&groups).into_iter().filter(is_init).collect();
    let [init] = found[..] else { panic!("not one PID 1 of {node}: {found:?}") };
    init
}

pub(crate) fn kill(pid: i32) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

/// Kills a node's machine and takes its disk away.
pub(crate) fn destroy(cluster: &Cluster, node: &str) {
    kill(init_of(cluster, node));
    let directory = cluster.state().join("nodes").join(node);
    lab::wait_until("its files can be removed", Duration::from_secs(30), || {
        fs::remove_dir_all(&directory).map_err(|error| error.to_string())
    });
}

/// Kills all that runs in it, and waits for the end.
pub(crate) fn kill_everything(cluster: &Cluster) {
    lab::wait_until("the end of all processes", Duration::from_secs(30), || {
        let left = processes(cluster);
        left.iter().copied().for_each(kill);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

pub(crate) fn remove_groups(cluster: &Cluster) {
    let mut groups = groups(cluster);
    // Those below first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.iter().count()));
    for group in groups {
        lab::wait_until("the removal of a control group", Duration::from_secs(30), || {
            fs::remove_dir(&group).map_err(|error| format!("{}: {error}", group.display()))
        });
    }
}

/// Takes away all that a reboot of the host would.
pub(crate) fn reboot(cluster: &Cluster) {
    let bridge = bridge(cluster);
    kill_everything(cluster);
    remove_groups(cluster);
    for link in links(cluster) {
        delete_link(&link.name);
    }
    delete_rules(&bridge);
}

/// Its links on the host: a bridge, and a port of it for each node.
pub(crate) fn links(cluster: &Cluster) -> Vec<LinkInfo> {
    let is_ours = |link: &LinkInfo| link.alias.split('/').nth(2) == Some(cluster.name.as_str());
    Net::here().unwrap().links().unwrap().into_iter().filter(is_ours).collect()
}

pub(crate) fn bridge(cluster: &Cluster) -> String {
    links(cluster).into_iter().find(|link| link.kind == "bridge").unwrap().name
}

pub(crate) fn port(cluster: &Cluster) -> String {
    links(cluster).into_iter().find(|link| link.kind == "veth").unwrap().name
}

/// The port of the bridge behind which one of its nodes is.
pub(crate) fn port_of(cluster: &Cluster, node: &str) -> String {
    let is_its = |link: &LinkInfo| link.kind == "veth" && link.alias.split('/').nth(3) == Some(node);
    links(cluster).into_iter().find(is_its).unwrap().name
}

pub(crate) fn delete_link(name: &str) {
    Net::here().unwrap().delete_link(name).unwrap();
}

/// Deletes its table of packet rules, which is called like its bridge.
pub(crate) fn delete_rules(bridge: &str) {
    let table = format!("flotilla-{}", bridge.strip_prefix("flo").unwrap());
    assert!(host_state::rules().contains(&table), "no table {table}");
    Nft::in_root(&lab::bundle().join("rootfs")).delete_table("ip", &table).unwrap();
}
