//! What must change about a cluster so that it is as wanted: a pure function.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::{ClusterSpec, NodeName, NodeSpec, Role, WantedPower};

/// One difference between what is there and what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Change {
    Add {
        node: NodeName,
        role: Role,
        /// What it has that nodes do not have by default, by field.
        settings: BTreeMap<&'static str, String>,
    },
    Remove {
        node: NodeName,
        role: Role,
    },
    Start {
        node: NodeName,
    },
    Stop {
        node: NodeName,
    },
    /// Something of a node.
    Update {
        node: NodeName,
        field: &'static str,
        from: String,
        to: String,
        /// It runs, and must be off for it.
        restart: bool,
        #[serde(skip)]
        role: Role,
    },
    /// Something of the whole cluster, which nothing can change.
    Replace {
        field: &'static str,
        from: String,
        to: String,
    },
}

impl Change {
    /// Why it cannot be done; none if it can.
    pub fn obstacle(&self) -> Option<&'static str> {
        match self {
            Self::Replace { .. } => Some("cannot change once it is made"),
            Self::Update { field, role, .. } if FIXED.contains(field) => match role {
                Role::ControlPlane => Some("cannot change once it is made"),
                Role::Worker => Some("cannot change once it is made: delete the node and add it anew"),
            },
            _ => None,
        }
    }

    /// The worker that must be made anew for it.
    pub fn renews(&self) -> Option<&NodeName> {
        match self {
            Self::Update { node, role: Role::Worker, .. } if self.obstacle().is_some() => Some(node),
            _ => None,
        }
    }

    /// It is done in the cluster, while the node runs.
    pub fn updates_labels(&self) -> bool {
        matches!(self, Self::Update { field: LABELS | TAINTS, .. })
    }

    /// It is done on the host, while the node runs.
    pub fn forwards(&self) -> bool {
        matches!(self, Self::Update { field: PORTS, .. })
    }

    /// The node that must be restarted for it.
    pub fn restarts(&self) -> Option<&NodeName> {
        match self {
            Self::Update { node, restart: true, .. } => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { node, role, settings } => {
                write!(f, "+ node {node}: {role}")?;
                for (field, value) in settings {
                    write!(f, ", {field} {value}")?;
                }
            }
            Self::Remove { node, .. } => write!(f, "- node {node}")?,
            Self::Start { node } => write!(f, "~ node {node}: start")?,
            Self::Stop { node } => write!(f, "~ node {node}: stop")?,
            Self::Update { node, field, from, to, .. } => write!(f, "~ node {node}: {field} {from} -> {to}")?,
            Self::Replace { field, from, to } => write!(f, "~ {field} {from} -> {to}")?,
        }
        if let Some(obstacle) = self.obstacle() {
            write!(f, " ({obstacle})")?;
        } else if self.restarts().is_some() {
            f.write_str(" (needs a restart of that node)")?;
        }
        Ok(())
    }
}

const ROLE: &str = "role";
const CPUS: &str = "cpus";
const MEMORY: &str = "memory";
const LABELS: &str = "labels";
const TAINTS: &str = "taints";
const KUBERNETES_VERSION: &str = "kubernetesVersion";
const BUNDLE: &str = "bundle";
const EXTRA_CONFIG: &str = "extraConfig";
const FEATURE_GATES: &str = "featureGates";
const KUBELET: &str = "kubelet";
const MOUNTS: &str = "mounts";
const PORTS: &str = "ports";

/// What a node is made with.
const FIXED: [&str; 6] = [ROLE, KUBERNETES_VERSION, BUNDLE, EXTRA_CONFIG, FEATURE_GATES, KUBELET];
/// What a machine is given when it boots.
const AT_BOOT: [&str; 3] = [CPUS, MEMORY, MOUNTS];

/// Everything that differs: the cluster's own first, then node by node, those that go last.
pub fn changes(known: &ClusterSpec, wanted: &ClusterSpec) -> Vec<Change> {
    let mut changes = of_cluster(known, wanted);
    for node in &wanted.nodes {
        match known.nodes.iter().find(|other| other.name == node.name) {
            Some(node_known) => changes.extend(of_node((known, node_known), (wanted, node))),
            None => changes.push(Change::Add {
                node: node.name.clone(),
                role: node.role,
                settings: settings((wanted, node)),
            }),
        }
    }
    let goes = |node: &&NodeSpec| !wanted.nodes.iter().any(|wanted| wanted.name == node.name);
    let gone = known
        .nodes
        .iter()
        .filter(goes)
        .map(|node| Change::Remove { node: node.name.clone(), role: node.role });
    changes.extend(gone);
    changes
}

fn of_cluster(known: &ClusterSpec, wanted: &ClusterSpec) -> Vec<Change> {
    let fields = |spec: &ClusterSpec| {
        let ClusterSpec { network, api_server, .. } = spec;
        let range = |range: Option<ipnet::Ipv4Net>| range.map(|range| range.to_string()).unwrap_or_default();
        let names = api_server.names.iter().cloned();
        [
            ("name", spec.name.to_string()),
            (KUBERNETES_VERSION, spec.kubernetes_version.to_string()),
            ("driver", spec.driver.to_string()),
            ("network.subnet", range(network.subnet)),
            ("network.podSubnet", range(network.pod_subnet)),
            ("network.nodePodPrefix", network.node_pod_prefix.to_string()),
            ("network.serviceSubnet", network.service_subnet.to_string()),
            ("network.dnsDomain", network.dns_domain.clone()),
            ("network.cni", network.cni.to_string()),
            ("apiServer", listed(names.chain(api_server.ips.iter().map(ToString::to_string)))),
            (EXTRA_CONFIG, listed(spec.extra_config.iter().map(ToString::to_string))),
            (FEATURE_GATES, spec.feature_gates.to_string()),
        ]
    };
    let pairs = fields(known).into_iter().zip(fields(wanted));
    let differing = pairs.filter(|(known, wanted)| known != wanted);
    differing
        .map(|((field, from), (_, to))| Change::Replace { field, from: shown(from), to: shown(to) })
        .collect()
}

/// Each node comes with its cluster.
fn of_node(known: (&ClusterSpec, &NodeSpec), wanted: (&ClusterSpec, &NodeSpec)) -> Vec<Change> {
    let pairs = fields(known).into_iter().zip(fields(wanted));
    let differing = pairs.filter(|(known, wanted)| known != wanted);
    let (known, wanted) = (known.1, wanted.1);
    let node = &wanted.name;
    let runs = (known.power, wanted.power) == (WantedPower::Running, WantedPower::Running);
    let mut changes: Vec<_> = differing
        .map(|((field, from), (_, to))| Change::Update {
            node: node.clone(),
            field,
            from: shown(from),
            to: shown(to),
            restart: runs && AT_BOOT.contains(&field),
            role: known.role,
        })
        .collect();
    match (known.power, wanted.power) {
        (WantedPower::Stopped, WantedPower::Running) => changes.push(Change::Start { node: node.clone() }),
        (WantedPower::Running, WantedPower::Stopped) => changes.push(Change::Stop { node: node.clone() }),
        _ => {}
    }
    changes
}

/// What a node has that a plain one of its role has not.
fn settings((cluster, node): (&ClusterSpec, &NodeSpec)) -> BTreeMap<&'static str, String> {
    let plain = NodeSpec::plain(node.name.clone(), node.role);
    let pairs = fields((cluster, node)).into_iter().zip(fields((cluster, &plain)));
    pairs.filter(|(own, plain)| own != plain).map(|(own, _)| own).collect()
}

fn fields((cluster, node): (&ClusterSpec, &NodeSpec)) -> [(&'static str, String); 13] {
    // The cluster's own version is no other if it is named.
    let own_version = node.kubernetes_version.as_ref().filter(|own| **own != cluster.kubernetes_version);
    [
        (ROLE, node.role.to_string()),
        (CPUS, node.cpus.to_string()),
        (MEMORY, node.memory.to_string()),
        ("disk", node.disk.map(crate::quantity::write_size).unwrap_or_default()),
        (LABELS, node.labels.to_string()),
        (TAINTS, listed_in_any_order(&cluster.taints_of(node))),
        (KUBERNETES_VERSION, own_version.map(ToString::to_string).unwrap_or_default()),
        (BUNDLE, node.bundle.clone().unwrap_or_default()),
        (EXTRA_CONFIG, listed(node.extra_config.iter().map(ToString::to_string))),
        (FEATURE_GATES, node.feature_gates.to_string()),
        (KUBELET, node.kubelet.to_string()),
        (MOUNTS, listed(node.mounts.iter().map(ToString::to_string))),
        (PORTS, listed_in_any_order(&node.ports)),
    ]
}

/// Items that mean the same in another order.
fn listed_in_any_order(items: &[impl ToString]) -> String {
    let mut items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.sort();
    items.join(",")
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// Nothing has to be seen as well.
fn shown(value: String) -> String {
    if value.is_empty() { "(none)".to_owned() } else { value }
}

#[cfg(test)]
mod tests;
