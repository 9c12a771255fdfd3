//! exec, logs, port-forward: what goes through the API server and the kubelet to a pod.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::network;
use crate::lab::{Cluster, PATIENCE};

pub(super) fn exec_and_kubectl_pass_exit_codes_on(cluster: &Cluster) {
    let output = cluster.run(&["kubectl", "--", "exec", "client", "--", "sh", "-c", "echo out; exit 42"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(42), b"out\n".as_slice()));
    let output = cluster.run(&["kubectl", "--", "get", "pod", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"nobody\" not found"));
    // With sudo the home is the user's, and kubectl's files would be root's.
    let home = tempfile::tempdir().unwrap();
    let get = cluster.command(&["kubectl", "--", "get", "nodes"]).env("HOME", home.path()).output().unwrap();
    assert!(get.status.success());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "files in the user's home");
}

pub(super) fn a_pods_logs_are_shown(cluster: &Cluster) {
    assert_eq!(cluster.kubectl(&["logs", "deployment/web"]), "serving\n");
}

pub(super) fn a_port_is_forwarded(cluster: &Cluster) {
    let forwarding = Background::start(cluster, &["kubectl", "--", "port-forward", "service/web", ":80"]);
    let said = forwarding.line_with("Forwarding from 127.0.0.1:");
    let port = said.split(['-', ':']).nth(1).unwrap().trim().parse().unwrap();
    network::web_answers_at("127.0.0.1", port);
}

pub(super) fn the_nodes_logs_are_shown_and_followed(cluster: &Cluster) {
    let logs = cluster.succeed(&["logs", "-n", "3"]);
    for part in ["kubelet", "containerd", "etcd", "kube-apiserver", "kube-scheduler"] {
        let heading = logs.lines().find(|line| line.starts_with("==> ") && line.contains(part));
        assert!(heading.is_some(), "no {part} in:\n{logs}");
    }
    let following = Background::start(cluster, &["logs", "-f", "-n", "1"]);
    following.line_with("==> /var/log/flotilla/kubelet.log");
    cluster.ssh("echo a line that comes later >> /var/log/flotilla/kubelet.log");
    following.line_with("a line that comes later");
}

/// A command that goes on until it is killed, at the latest when this is dropped.
struct Background {
    child: Child,
    lines: Receiver<String>,
}

impl Background {
    fn start(cluster: &Cluster, args: &[&str]) -> Self {
        let mut child = cluster.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // It ends with the command, or when its output is closed.
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Waits for a line that contains this.
    fn line_with(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("no word of {text:?}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
