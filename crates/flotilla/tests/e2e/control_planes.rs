//! Clusters of several control planes: they come and go, fail and return, and a client that writes all the time loses
//! nothing of what it was promised.

mod certificates;
mod etcd;
mod faults;
mod killed;
mod life;
mod plain_kubeadm;
mod recovery;
mod start;
mod writer;

use std::fs;

use crate::cluster::{Part, run};
use crate::faults::{KUBECONFIG, said};
use crate::host_state::HostState;
use crate::lab::{self, Cluster, PATIENCE, feed, wait_until};
use crate::nodes::fleet;

use writer::Writer;

pub(crate) fn control_planes_come_and_go_while_a_client_writes() {
    come_and_go("tc-life", |cluster, writer| {
        life::one_becomes_three(cluster, writer);
        life::the_primary_leaves(cluster, writer);
        life::a_stopped_one_joins_again(cluster, writer);
        life::the_last_one_is_like_the_first(cluster, writer);
    });
}

pub(crate) fn killed_while_control_planes_come_and_go_the_same_command_gets_to_its_end() {
    come_and_go("tc-kill", |cluster, writer| {
        killed::one_becomes_three(cluster, writer);
        killed::three_become_five_and_three_again(cluster, writer);
        killed::the_primary_leaves(cluster, writer);
        life::the_last_one_is_like_the_first(cluster, writer);
        killed::additions_and_deletions_are_finished(cluster, writer);
    });
}

/// A cluster of one control plane that more come to, and in the end nothing of it on the host.
fn come_and_go(name: &str, changes: impl FnOnce(&Cluster, &Writer)) {
    let cluster = Cluster::new(lab::real_home(), name);
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    // As every cluster was before there could be more.
    cluster.start(&[]);
    cluster.succeed(&["stop"]);
    cluster.start(&[]);
    let writer = Writer::begin(&cluster);
    changes(&cluster, &writer);
    writer.end(&cluster);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "control planes that came and went");
}

pub(crate) fn a_cluster_outlives_any_of_its_control_planes() {
    let cluster = Cluster::new(lab::real_home(), "tc-faults");
    start::three_and_two_workers(&cluster, &start::KILL);
    let parts: &[Part] = &[
        ("nodes are Ready and have their taints", start::nodes_are_ready_and_have_their_taints),
        ("workers have no key of the authority", start::workers_have_no_key_of_the_authority),
        ("the one with the virtual IP is killed", faults::the_one_with_the_virtual_ip_is_killed),
        ("one is cut off without noticing, and healed", faults::one_is_cut_off_without_noticing),
        ("one that is lost for good is replaced", faults::one_that_is_lost_for_good_is_replaced),
        ("expired certificates are renewed", certificates::expired_certificates_are_renewed),
        ("kubeadm understands the cluster", plain_kubeadm::kubeadm_understands_every_control_plane),
        ("a worker joins by plain kubeadm", plain_kubeadm::a_worker_joins_by_plain_kubeadm),
        ("a control plane joins by plain kubeadm", plain_kubeadm::a_control_plane_joins_by_plain_kubeadm),
        ("a snapshot brings back what was deleted", recovery::a_snapshot_brings_back_what_was_deleted),
        ("a lost majority is recovered", recovery::a_lost_majority_is_recovered),
        ("taints can be taken away and given", start::taints_can_be_taken_away_and_given),
    ];
    run(&cluster, parts);
}

pub(crate) fn control_planes_fail_in_every_way() {
    let cluster = Cluster::new(lab::real_home(), "tc-more");
    start::three_and_two_workers(&cluster, &start::KILLS);
    let parts: &[Part] = &[
        ("each control plane is killed in turn", faults::each_is_killed_in_turn),
        ("one is cut off, and healed", faults::one_is_cut_off_and_healed),
        ("what loses the quorum is refused", faults::what_loses_the_quorum_is_refused),
        ("two of three are killed, one returns", faults::two_of_three_are_killed),
        ("stopped and started, all is back", faults::stopped_and_started_all_is_back),
        ("after a reboot all five nodes are back", faults::after_a_reboot_all_nodes_are_back),
        ("a majority with data is not recovered", recovery::a_majority_with_data_is_not_recovered),
        // Last: it leaves one of three.
        ("what a snapshot has is recovered", recovery::what_a_snapshot_has_is_recovered),
    ];
    run(&cluster, parts);
}

/// The first control plane, and those that `start --control-planes 3` makes beside it.
fn three(cluster: &Cluster) -> [String; 3] {
    [cluster.name.clone(), fleet::worker(cluster, 2), fleet::worker(cluster, 3)]
}

/// Those of the nodes that are control planes, in the cluster's order.
fn control_planes(cluster: &Cluster) -> Vec<String> {
    let nodes = fleet::list(cluster);
    let control_planes = nodes.iter().filter(|node| node["Role"] == "control-plane");
    control_planes.map(|node| node["Name"].as_str().unwrap().to_owned()).collect()
}

/// The first three control planes, all of them running: what a part has broken that failed is not the next one's business.
fn three_running(cluster: &Cluster) -> [String; 3] {
    cluster.start(&[]);
    three(cluster)
}

/// Waits until a `start` finds everything as it is to be.
#[track_caller]
fn assert_nothing_to_do(cluster: &Cluster) {
    wait_until("nothing is left to do", PATIENCE, || {
        let reported = cluster.start(&[]);
        if reported.contains("nothing to do") { Ok(()) } else { Err(reported) }
    });
}

/// Waits until the status has nothing to complain about.
#[track_caller]
fn assert_status_is_well(cluster: &Cluster) {
    wait_until("the status is well", PATIENCE, || {
        let status = cluster.run(&["status"]);
        if status.status.success() { Ok(()) } else { Err(said(&status)) }
    });
}

/// The tokens by which nodes have joined are gone.
#[track_caller]
fn assert_no_tokens(cluster: &Cluster) {
    let tokens = ["--field-selector", "type=bootstrap.kubernetes.io/token", "-o", "name"];
    let left = cluster.kubectl(&[&["get", "secrets", "-n", "kube-system"], &tokens[..]].concat());
    assert_eq!(left.trim(), "");
}

/// Brings the cluster to this file.
#[track_caller]
fn apply(cluster: &Cluster, file: &str) {
    let applied = feed(&mut cluster.command(&["apply", "-f", "-", "--yes"]), file.as_bytes());
    assert!(applied.status.success(), "{}", said(&applied));
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
