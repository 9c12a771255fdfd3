//! A majority that is lost for good, and what a snapshot brings back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flotilla_testkit::with_checksum;

use super::writer::written;
use super::{Writer, control_planes};
use super::{etcd, refs, three_running};
use crate::faults::{kernel, said};
use crate::lab::{At, Cluster, kill_at};
use crate::nodes::fleet;

pub(super) fn a_snapshot_brings_back_what_was_deleted(cluster: &Cluster) {
    let three = three_running(cluster);
    let file = cluster.kubeconfig().with_file_name("etcd.snapshot");
    let path = file.to_str().unwrap();
    cluster.kubectl(&["create", "configmap", "kept", "--from-literal=it=is"]);
    cluster.succeed(&["etcd", "snapshot", "save", path]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = cluster.run(&["etcd", "snapshot", "save", path]);
    assert!(!again.status.success() && said(&again).contains("--force"), "{}", said(&again));
    cluster.succeed(&["etcd", "snapshot", "save", path, "--force"]);

    cluster.kubectl(&["delete", "configmap", "kept"]);
    cluster.kubectl(&["create", "configmap", "later", "--from-literal=it=is-not"]);
    let asked = cluster.run(&["etcd", "snapshot", "restore", path]);
    assert_eq!(asked.status.code(), Some(14), "no terminal to ask on: {}", said(&asked));
    cluster.kubectl(&["get", "configmap", "later"]);
    assert_foreign_is_refused(cluster, &file);

    let restore = ["etcd", "snapshot", "restore", path, "--yes"];
    let step = &*format!("restore/{}", control_planes(cluster)[0]).leak();
    assert!(kill_at(cluster, &restore, At::Within(step, 3000)));
    let reported = said(&cluster.run(&restore));
    for node in &three {
        assert!(
            reported.contains(&format!("{node}:/var/lib/etcd.before-1")),
            "no copy of {node}: {reported}"
        );
        // Also after the repetition it is what the cluster had before all this.
        let later = "grep -c /registry/configmaps/default/later /var/lib/etcd.before-1/snap/db";
        assert_ne!(fleet::ssh(cluster, node, later).trim(), "0", "{node} has lost its data");
    }
    assert_eq!(cluster.field(&["configmap", "kept"], "{.data.it}"), "is");
    assert!(cluster.try_kubectl(&["get", "configmap", "later"]).is_err());
    etcd::assert_members(cluster, &refs(&three));
    assert_well(cluster);
    Writer::begin(cluster).end(cluster);
}

/// The same snapshot, as if another cluster had made it: with another authority.
fn assert_foreign_is_refused(cluster: &Cluster, own: &Path) {
    let authority = fleet::ssh(cluster, &control_planes(cluster)[0], "cat /etc/kubernetes/pki/ca.crt");
    let line = authority.lines().nth(2).unwrap().as_bytes();
    let mut bytes = fs::read(own).unwrap();
    bytes.truncate(bytes.len() - 32);
    let windows = bytes.windows(line.len()).enumerate();
    let places: Vec<_> = windows.filter(|(_, window)| *window == line).map(|(place, _)| place).collect();
    assert!(!places.is_empty(), "the snapshot does not have the cluster's authority");
    for place in places {
        bytes[place..place + line.len()].fill(b'A');
    }
    let foreign = own.with_file_name("foreign.snapshot");
    fs::write(&foreign, with_checksum(bytes)).unwrap();
    let refused = cluster.run(&["etcd", "snapshot", "restore", foreign.to_str().unwrap(), "--yes"]);
    assert_eq!(refused.status.code(), Some(81), "{}", said(&refused));
    assert!(said(&refused).contains("GUEST_FOREIGN_SNAPSHOT"), "{}", said(&refused));
    cluster.kubectl(&["get", "configmap", "later"]);
}

/// Two of three stand still: the API is silent, and nothing is lost.
pub(super) fn a_majority_with_data_is_not_recovered(cluster: &Cluster) {
    let [_, second, third] = three_running(cluster);
    cluster.succeed(&["node", "pause", &second]);
    let refused = cluster.run(&["node", "pause", &third]);
    let reported = said(&refused);
    assert_eq!(refused.status.code(), Some(81), "{reported}");
    assert!(reported.contains(&format!("pausing {third} would lose quorum")), "{reported}");
    cluster.succeed(&["node", "pause", &third, "--force"]);
    let refused = cluster.run(&["recover", "--yes"]);
    let reported = said(&refused);
    assert_eq!(refused.status.code(), Some(81), "{reported}");
    assert!(reported.contains("GUEST_HAS_DATA"), "{reported}");
    let status = cluster.run(&["etcd", "status"]);
    assert_eq!(status.status.code(), Some(2), "{}", said(&status));
    assert!(said(&status).contains("no leader"), "{}", said(&status));
    // What is paused is unpaused, and not waited for in vain.
    cluster.start(&[]);
    etcd::assert_members(cluster, &refs(&three_running(cluster)));
}

/// Two are destroyed, the primary among them, disk and all.
pub(super) fn a_lost_majority_is_recovered(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    let before = written(cluster);
    assert!(!before.is_empty());
    let refused = cluster.run(&["recover", "--yes"]);
    assert!(!refused.status.success(), "nothing is lost: {}", said(&refused));
    assert!(said(&refused).contains("GUEST_HAS_QUORUM"), "{}", said(&refused));
    for node in [&first, &second] {
        kernel::destroy(cluster, node);
    }
    let reported = said(&cluster.run(&["etcd", "status"]));
    assert!(reported.contains("1 of 3"), "{reported}");

    let asked = cluster.run(&["recover"]);
    assert_eq!(asked.status.code(), Some(14), "no terminal to ask on: {}", said(&asked));
    let step = &*format!("restore/{third}").leak();
    assert!(kill_at(cluster, &["recover", "--yes"], At::Within(step, 300)));
    cluster.succeed(&["recover", "--yes"]);
    // Once more, as after a kill in the last moment.
    let again = cluster.run(&["recover", "--yes"]);
    assert!(again.status.success() && said(&again).contains("already"), "{}", said(&again));
    assert!(said(&again).contains(&format!("{third}:/var/lib/etcd.before-")), "{}", said(&again));
    let there = written(cluster);
    assert!(before.is_subset(&there), "{} were there, {} are", before.len(), there.len());
    etcd::assert_members(cluster, &[&third]);

    // `start` creates the lost nodes again.
    cluster.start(&[]);
    let mut all = control_planes(cluster);
    all.sort();
    let mut wanted = vec![first, second, third];
    wanted.sort();
    assert_eq!(all, wanted);
    etcd::assert_members(cluster, &refs(&all));
    assert_well(cluster);
    Writer::begin(cluster).end(cluster);
}

/// The same two are destroyed, and something was written since the snapshot.
pub(super) fn what_a_snapshot_has_is_recovered(cluster: &Cluster) {
    let three = three_running(cluster);
    let before = written(cluster);
    let file = cluster.kubeconfig().with_file_name("later.snapshot");
    let path = file.to_str().unwrap();
    cluster.succeed(&["etcd", "snapshot", "save", path]);
    cluster.kubectl(&["create", "configmap", "too-late", "--from-literal=it=is-not"]);
    for node in &three[..2] {
        kernel::destroy(cluster, node);
    }
    let reported = said(&cluster.run(&["recover", "--yes", "--from", path]));
    assert!(reported.contains(&three[2]) && reported.contains("newer"), "{reported}");
    assert!(before.is_subset(&written(cluster)));
    assert!(cluster.try_kubectl(&["get", "configmap", "too-late"]).is_err());
    etcd::assert_members(cluster, &[&three[2]]);
}

/// Every node is Ready, and new pods run.
fn assert_well(cluster: &Cluster) {
    for node in fleet::names(cluster) {
        cluster.wait_for("condition=Ready", &["node", &node]);
    }
    fleet::deploy(cluster, "after", 2, "");
    cluster.wait_for("condition=Available", &["deployment/after"]);
    fleet::undeploy(cluster, "after");
}
