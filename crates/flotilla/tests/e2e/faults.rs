//! Whatever is done to a cluster, `start` brings it back as it was, and `delete` leaves nothing of it.

pub(crate) mod deletion;
mod interrupted;
pub(crate) mod kernel;
pub(crate) mod killed;
mod links;
mod reboot;
mod services;
pub(crate) mod side_by_side;

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::cluster::{Part, run};
use crate::host_state::HostState;
use crate::lab::{self, Cluster};

/// A kubeconfig that was there before, and is to be there afterwards as it was. It has no current context: that of
/// before is not kept in mind.
pub(crate) const KUBECONFIG: &str = r#"apiVersion: v1
kind: Config
# Somebody else's.
clusters:
- name: other
  cluster:
    server: https://192.0.2.1:6443
contexts:
- name: other
  context:
    cluster: other
    user: other
current-context: ""
users:
- name: other
  user:
    token: secret
"#;

pub(crate) fn whatever_is_done_to_a_cluster_start_brings_it_back() {
    let (cluster, before) = cluster("all");
    side_by_side::the_second_command_waits_or_says_who_is_first(&cluster);
    let parts: &[Part] = &[
        ("PID 1 brings its services back", services::pid_1_brings_its_services_back),
        ("start brings back PID 1", services::start_brings_back_pid_1),
        ("a node goes down in order", services::a_node_goes_down_in_order),
        ("after a stop that was killed all is back", killed::after_a_stop_that_was_killed_all_is_back),
    ];
    run(&cluster, parts);
    delete_without_trace(&cluster, &before, "all that was done to it");
    assert_eq!(fs::read_to_string(cluster.kubeconfig()).unwrap(), KUBECONFIG);
}

pub(crate) fn start_repairs_the_network_under_a_running_node() {
    let (cluster, before) = cluster("network");
    cluster.start(&[]);
    links::start_repairs_the_network(&cluster);
    delete_without_trace(&cluster, &before, "a network that was repaired");
}

pub(crate) fn after_a_reboot_and_killed_stops_the_same_cluster_is_back() {
    let (cluster, before) = cluster("reboot");
    cluster.start(&[]);
    let parts: &[Part] = &[
        ("after a stop that was killed at any step all is back", killed::after_a_killed_stop_all_is_back),
        ("after a reboot the same cluster is back", reboot::the_same_cluster_is_back),
    ];
    run(&cluster, parts);
    delete_without_trace(&cluster, &before, "a reboot");
}

/// A cluster that is not there yet, and the host before it.
fn cluster(name: &str) -> (Cluster, HostState) {
    let cluster = Cluster::new(lab::real_home(), &format!("tf-{name}"));
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    (cluster, before)
}

/// Deletes it and compares the host with what it was before.
#[track_caller]
fn delete_without_trace(cluster: &Cluster, before: &HostState, after: &str) {
    cluster.succeed(&["delete"]);
    before.assert_unchanged(cluster, after);
}

/// The node is Ready and a new pod runs.
#[track_caller]
fn assert_works(cluster: &Cluster, pod: &str) {
    cluster.wait_for("condition=Ready", &["node", &cluster.name]);
    run_pod(cluster, pod, "");
}

/// Makes a pod that sleeps, and waits until it runs. `more` are lines for its container.
fn run_pod(cluster: &Cluster, pod: &str, more: &str) {
    let image = pause_image();
    cluster.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: {image}
{more}"
    ));
    cluster.wait_for("condition=Ready", &["pod", pod]);
}

/// An image that is in every bundle and does nothing.
pub(crate) fn pause_image() -> String {
    let manifest: Value =
        serde_json::from_slice(&fs::read(lab::bundle().join("manifest.json")).unwrap()).unwrap();
    let images = manifest["images"].as_array().unwrap().iter().map(|image| image.as_str().unwrap());
    images.into_iter().find(|image| image.contains("/pause:")).unwrap().to_owned()
}

/// What a command said, and how it ended.
pub(crate) fn said(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{stdout}{stderr}", output.status)
}
