//! Settings of a control plane that is the only one: what several need to agree costs a single one seconds at each start.
//!
//! They are flags in its static pods, added by patches of kubeadm, and not in the cluster's configuration: a control plane
//! that joins later does not inherit them. Before one joins, they are removed. They do not come back with the last of
//! several: nothing is gained while it runs.

use flotilla_core::cluster::Cluster;
use flotilla_core::{BootstrapError, Cmd, Machine};
use flotilla_spec::{ClusterSpec, Component};
use serde_json::json;

use crate::etcd;
use crate::files::PATCHES;
use crate::patience::{Cancelled, Patience};
use crate::phase::run;
use crate::yaml;

/// A static pod, and flags of it.
type PodFlags = (&'static str, Component, &'static [(&'static str, &'static str)]);

const FLAGS: [PodFlags; 3] = [
    // A single member elects itself after one election timeout: up to a second by default. The heartbeat must be a tenth
    // of that, and there is nobody to send it to.
    ("etcd", Component::Etcd, &[("heartbeat-interval", "10"), ("election-timeout", "100")]),
    ("kube-controller-manager", Component::ControllerManager, &[("leader-elect", "false")]),
    ("kube-scheduler", Component::Scheduler, &[("leader-elect", "false")]),
];

/// The flags of each static pod, but for pods whose user has set one of them.
fn flags(
    spec: &ClusterSpec,
) -> impl Iterator<Item = (&'static str, &'static [(&'static str, &'static str)])> {
    let is_set = |component, flags: &[(&str, &str)]| {
        let mut options = spec.extra_config.iter().filter(|option| option.component() == component);
        options.any(|option| flags.iter().any(|(name, _)| *name == option.key()))
    };
    FLAGS
        .into_iter()
        .filter(move |(_, component, flags)| !is_set(*component, flags))
        .map(|(pod, _, flags)| (pod, flags))
}

/// The name of a patch.
fn file(pod: &str) -> String {
    format!("{pod}-alone+json.yaml")
}

/// Removes the patches, in a machine that is to be one of several and may have tried to be the only one.
pub(crate) fn forget() -> String {
    format!("rm -f {PATCHES}/{}", file("*"))
}

/// The patches of a cluster with one control plane, by file name.
pub(crate) fn patches(spec: &ClusterSpec) -> Vec<(String, String)> {
    if spec.control_planes().count() > 1 {
        return Vec::new();
    }
    let patch = |(pod, flags): (&str, &[(&str, &str)])| {
        // Of two flags with the same name the later wins.
        let add = |(name, value): &(&str, &str)| json!({"op": "add", "path": "/spec/containers/0/command/-", "value": format!("--{name}={value}")});
        (file(pod), yaml::document(&flags.iter().map(add).collect()))
    };
    flags(spec).map(patch).collect()
}

/// Makes the control plane in this machine one that others can join. A single etcd is restarted for it, and the API does
/// not answer for some seconds. Does nothing if it is one already, as those are that an earlier version has made.
pub(crate) async fn end(
    cluster: &Cluster,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let action = "prepare the control plane for another one";
    run(machine, action, Cmd::sh(remove(&cluster.spec))).await?;
    let look = look(&cluster.spec);
    let patience = Patience::new("the restart of etcd before another control plane joins", cancelled);
    loop {
        let left = run(machine, action, Cmd::sh(look.as_str())).await?;
        if left.text().is_empty() {
            break;
        }
        patience.pause(&left.text().lines().map(str::to_owned).collect::<Vec<_>>()).await?;
    }
    etcd::wait_until_healthy(machine, cancelled).await
}

/// Removes the flags from the manifests, and the patches. A manifest is replaced by a rename: the kubelet would read half
/// of it, or a temporary file beside it.
fn remove(spec: &ClusterSpec) -> String {
    let steps = flags(spec).map(|(pod, flags)| {
        let lines = |mark: &str| {
            let lines = flags
                .iter()
                .map(|(name, value)| format!("-e '{}'", mark.replace("FLAG", &format!("--{name}={value}"))));
            lines.collect::<Vec<_>>().join(" ")
        };
        let (manifest, new, patch) =
            (format!("etc/kubernetes/manifests/{pod}.yaml"), format!("etc/flotilla/{pod}.new"), file(pod));
        format!(
            "rm -f {PATCHES}/{patch}
             if grep -qs {} /{manifest}; then
                 sed {} /{manifest} > /{new}
                 mv -f /{new} /{manifest}
             fi",
            lines("^ *- FLAG$"),
            lines("/^ *- FLAG$/d"),
        )
    });
    format!("set -e\numask 077\n{}", steps.collect::<Vec<_>>().join("\n"))
}

/// Prints the flags that a process still runs with.
fn look(spec: &ClusterSpec) -> String {
    let looks = flags(spec).map(|(pod, flags)| {
        let flags: Vec<_> = flags.iter().map(|(name, value)| format!("-e '--{name}={value}'")).collect();
        format!(
            "for pid in $(pidof {pod}); do tr '\\0' '\\n' 2>/dev/null < /proc/$pid/cmdline | grep -x {}; done || true",
            flags.join(" ")
        )
    });
    looks.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
