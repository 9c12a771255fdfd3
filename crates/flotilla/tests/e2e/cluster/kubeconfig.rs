//! The person's kubeconfig, in which there are others.

use std::fs;
use std::os::unix::fs::PermissionsExt;

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
    let (code, told) = status(cluster);
    assert_eq!((code, told["Kubeconfig"].as_str()), (4, Some("Misconfigured")), "{told}");
    cluster.succeed(&["update-context"]);
    assert_eq!(text(cluster), good, "the file is not as it was");
    assert_eq!(status(cluster).0, 0);
}

pub(super) fn deleted_only_the_others_are_left(cluster: &Cluster) {
    let said = cluster.succeed(&["delete"]);
    assert!(said.contains("is deleted"), "{said}");
    let left = text(cluster);
    has_the_foreign_lines(&left);
    assert!(!left.contains(&cluster.name), "{left}");
    assert!(!cluster.state().exists(), "{} is left", cluster.state().display());
    assert_eq!(cluster.run(&["status"]).status.code(), Some(85), "a cluster that is not there");
}

fn text(cluster: &Cluster) -> String {
    fs::read_to_string(cluster.kubeconfig()).unwrap()
}

/// All lines of the others are there, in their order. Which context is current is not theirs.
fn has_the_foreign_lines(text: &str) {
    let mut lines = text.lines();
    for line in FOREIGN.lines().filter(|line| !line.starts_with("current-context")) {
        assert!(lines.any(|other| other == line), "{line:?} is gone, or elsewhere:\n{text}");
    }
}
