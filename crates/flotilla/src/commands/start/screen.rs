//! What a user reads of a start.

use flotilla_core::Changed;
use flotilla_ops::start::{Started, Steps};
use flotilla_spec::NodeName;
use serde_json::json;

use crate::screen::Screen;

pub(super) fn tell_steps(screen: &Screen, plan: &Steps) {
    screen.result(&json!({"cluster": plan.cluster, "steps": plan.steps}), || {
        let titles = plan.steps.iter().map(|step| format!("  {}", step.title));
        let heading =
            format!("steps to start cluster {} (Kubernetes {}):", plan.cluster, plan.kubernetes_version);
        std::iter::once(heading).chain(titles).collect::<Vec<_>>().join("\n")
    });
}

pub(super) fn tell(screen: &Screen, started: &Started) {
    let Started { changed, sizes_pending: pending, .. } = started;
    let mut value = json!(started);
    value["changed"] = json!(changed.is_yes() || !pending.is_empty());
    if pending.is_empty()
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("sizesPending");
    }
    screen.result(&value, || text(started, &screen.profile_flag(&started.cluster)));
}

fn text(started: &Started, flag: &str) -> String {
    let Started { cluster: name, changed, kubernetes_version: version, server, ip, sizes_pending: pending } =
        started;
    let runs = format!("cluster {name} runs already (Kubernetes {version}, {ip})");
    let up = format!("cluster {name} is up: Kubernetes {version} at {server}");
    match (changed, pending_sizes(flag, pending)) {
        // The second line is minikube's: scripts look for it.
        (Changed::No, None) => {
            format!("{runs}: nothing to do\nThe running cluster does not require reconfiguration")
        }
        (Changed::No, Some(pending)) => format!("{runs}\n{pending}"),
        (Changed::Yes, None) => format!("{up}\n\n{}", next_commands(flag)),
        (Changed::Yes, Some(pending)) => format!("{up}\n{pending}\n\n{}", next_commands(flag)),
    }
}

fn pending_sizes(flag: &str, nodes: &[NodeName]) -> Option<String> {
    let names: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
    let names = names.join(", ");
    (!nodes.is_empty()).then(|| {
        format!(
            "the new size of {names} is saved and takes effect when it boots: `flotilla stop{flag}`, then \
             `flotilla start{flag}`"
        )
    })
}

/// What a user may want to type next.
fn next_commands(flag: &str) -> String {
    let commands = [
        ("kubectl get nodes".to_owned(), "your kubectl uses it"),
        (format!("flotilla kubectl{flag} -- get pods -A"), "the cluster's own kubectl"),
        (format!("flotilla ssh{flag}"), "a shell in the node"),
        (format!("flotilla stop{flag}"), "stop it and keep its data"),
        (format!("flotilla delete{flag}"), "remove it"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    commands.map(|(command, what)| format!("  {command:width$}    {what}")).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_needs_nothing_is_told_in_minikubes_words_as_well() {
        let mut started = Started {
            cluster: "demo".parse().unwrap(),
            changed: Changed::No,
            kubernetes_version: "v1.37.1".parse().unwrap(),
            server: "https://10.213.0.254:6443".to_owned(),
            ip: "10.213.0.2".to_owned(),
            sizes_pending: Vec::new(),
        };
        insta::assert_snapshot!(text(&started, ""), @"
        cluster demo runs already (Kubernetes v1.37.1, 10.213.0.2): nothing to do
        The running cluster does not require reconfiguration
        ");
        started.changed = Changed::Yes;
        assert!(!text(&started, "").contains("require"));
    }
}
