//! The person's kubeconfig, in which there are others.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::life::status;
use crate::lab::Cluster;

/// What was there before, and must be there ever after.
const FOREIGN: &str = "\
# Keep this line, please.
apiVersion: v1
kind: Config
preferences: {}
clusters:
- name: zebra # The old one.
  cluster:
    server: https://192.0.2.1:6443
- cluster: {server: 'https://192.0.2.2:6443'}
  name: antelope
users:
- name: zebra
  user: {token: secret}
contexts:
- name: zebra
  context: {cluster: zebra, user: zebra}
current-context: zebra
";

pub(super) fn write_a_foreign_one(cluster: &Cluster) {
    fs::write(cluster.kubeconfig(), FOREIGN).unwrap();
    fs::set_permissions(cluster.kubeconfig(), fs::Permissions::from_mode(0o600)).unwrap();
}

pub(super) fn a_broken_entry_is_repaired(cluster: &Cluster) {
    let good = text(cluster);
    assert!(good.contains(&format!("current-context: {}", cluster.name)), "{good}");
    has_the_foreign_lines(&good);
    let ours = cluster.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    fs::write(cluster.kubeconfig(), good.replace(&ours, "https://192.0.2.3:1")).unwrap();
    let (code, reported) = status(cluster);
    assert_eq!((code, reported["Kubeconfig"].as_str()), (4, Some("Misconfigured")), "{reported}");
    cluster.succeed(&["update-context"]);
    assert_eq!(text(cluster), good, "the file is not as it was");
    assert_eq!(status(cluster).0, 0);
}

/// An entry of the cluster's name that somebody else wrote: nothing touches it, and the cluster does without.
pub(super) fn somebody_elses_entry_of_its_name_stays(cluster: &Cluster) {
    let good = text(cluster);
    let name = &cluster.name;
    let theirs = FOREIGN.replace("zebra", name);
    fs::write(cluster.kubeconfig(), &theirs).unwrap();
    let (code, reported) = status(cluster);
    assert_eq!((code, reported["Kubeconfig"].as_str()), (4, Some("Misconfigured")), "{reported}");
    let started = cluster.run(&["start"]);
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.success(), "{said}");
    assert!(said.contains(&format!("cluster {name}")), "{said}");
    assert_eq!(cluster.run(&["update-context"]).status.code(), Some(38));
    assert_eq!(text(cluster), theirs, "what somebody else wrote has changed");
    // A bad line stops nothing either.
    fs::write(cluster.kubeconfig(), "clusters: [\n").unwrap();
    cluster.succeed(&["start"]);
    assert_eq!(status(cluster).0, 4);
    assert_eq!(text(cluster), "clusters: [\n");
    fs::write(cluster.kubeconfig(), &good).unwrap();
    assert_eq!(status(cluster).0, 0);
    let list: Value = serde_json::from_str(&cluster.succeed(&["list", "-o", "json"])).unwrap();
    let this = list.as_array().into_iter().flatten().find(|one| one["name"] == name.as_str()).unwrap();
    assert_eq!((&this["status"], &this["current"]), (&"Running".into(), &true.into()), "{list}");
}

pub(super) fn deleted_only_the_others_are_left(cluster: &Cluster) {
    let said = cluster.succeed(&["delete"]);
    assert!(said.contains("deleted"), "{said}");
    let left = text(cluster);
    has_the_foreign_lines(&left);
    assert!(!left.contains(&cluster.name), "{left}");
    assert!(!cluster.state().exists(), "{} is left", cluster.state().display());
    assert_eq!(cluster.run(&["status"]).status.code(), Some(85), "a cluster that is not there");
}

fn text(cluster: &Cluster) -> String {
    fs::read_to_string(cluster.kubeconfig()).unwrap()
}

/// All lines of the others are kept, in their order. The current context may differ.
fn has_the_foreign_lines(text: &str) {
    let mut lines = text.lines();
    for line in FOREIGN.lines().filter(|line| !line.starts_with("current-context")) {
        assert!(lines.any(|other| other == line), "{line:?} is gone, or elsewhere:\n{text}");
    }
}
