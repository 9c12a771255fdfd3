//! The pod that stands for all pods: it runs, and asks for a name until it is reported.
//!
//! It needs no image of its own, whose import would be measured too: it has the image that is in every bundle, and
//! the node's own static busybox. When it was answered is read from its log, where each line has its time: to ask
//! the API would cost more than what is measured.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

pub(super) const NAMESPACE: &str = "default";
pub(super) const NAME: &str = "bench";

const ANSWERED: &str = "answered";

/// Every question is a process of its own: one that is lost must not delay the next. The shell is process 1: its
/// number is written out, since Kubernetes itself would take `$$` apart.
const SCRIPT: &str = r#"
ask() { busybox nslookup -type=a kubernetes.default.svc.cluster.local >/dev/null 2>&1; }
trap 'exit 0' TERM
trap 'told=yes' USR1
told=
until [ "$told" ]; do
    (ask && echo answered && kill -USR1 1) &
    busybox sleep 0.1
done
while :; do busybox sleep 3600 & wait $!; done
"#;

pub(super) fn object(image: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": NAME},
        "spec": {
            "containers": [{
                "name": NAME,
                "image": image,
                "imagePullPolicy": "Never",
                "command": ["/node/bin/busybox", "sh", "-c", SCRIPT],
                "env": [{"name": "PATH", "value": "/node/bin"}],
                "volumeMounts": [{"name": "programs", "mountPath": "/node/bin", "readOnly": true}],
            }],
            "volumes": [{"name": "programs", "hostPath": {"path": "/usr/bin"}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }))
    .expect("these are the fields of a pod")
}

/// A pod on every node that does nothing.
pub(super) fn on_every_node(image: &str) -> DaemonSet {
    let labels = json!({"app": NAME});
    serde_json::from_value(json!({
        "metadata": {"name": NAME},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": NAME, "image": image, "imagePullPolicy": "Never"}],
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 0,
                },
            },
        },
    }))
    .expect("these are the fields of a set of pods")
}

/// When DNS first answered the pod after `since`, by its logs in the node's directory: one for each start.
pub(super) fn answered(node: &Path, since: Timestamp) -> Option<Timestamp> {
    let ours = format!("{NAMESPACE}_{NAME}_");
    let pods = fs::read_dir(node.join("var/log/pods")).into_iter().flatten().flatten();
    let pods = pods.filter(|pod| pod.file_name().to_string_lossy().starts_with(&ours));
    let logs = pods.filter_map(|pod| fs::read_dir(pod.path().join(NAME)).ok()).flatten().flatten();
    let texts = logs.filter_map(|log| fs::read_to_string(log.path()).ok());
    texts.filter_map(|text| answers(&text).find(|time| *time >= since)).min()
}

/// The times of the answers in a log as the runtime writes it: `TIME stdout F TEXT`.
fn answers(log: &str) -> impl Iterator<Item = Timestamp> {
    log.lines()
        .filter(|line| line.ends_with(ANSWERED))
        .filter_map(|line| line.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_after_a_moment_is_found_in_whichever_log_it_is() {
        let node = tempfile::tempdir().unwrap();
        let logs = node.path().join("var/log/pods/default_bench_0f/bench");
        fs::create_dir_all(&logs).unwrap();
        let first =
            "2026-11-16T22:05:21.5Z stderr F sh: oops\n2026-11-16T22:05:22.773820536Z stdout F answered\n";
        fs::write(logs.join("0.log"), first).unwrap();
        let again = "2026-11-16T22:13:26.25Z stdout F answered\n2026-11-16T22:13:26.35Z stdout F answered\n";
        fs::write(logs.join("1.log"), again).unwrap();
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let since = |text| answered(node.path(), time(text));
        assert_eq!(since("2026-11-16T22:05:21Z"), Some(time("2026-11-16T22:05:22.773820536Z")));
        assert_eq!(since("2026-11-16T22:13:20Z"), Some(time("2026-11-16T22:13:26.25Z")));
        assert_eq!(since("2026-11-16T23:00:00Z"), None);
    }
}
