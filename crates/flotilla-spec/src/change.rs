//! Compares a cluster with its wanted spec: a pure function.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::{ClusterSpec, NodeName, NodeSpec, Role, WantedPower};

/// One difference between the current and the wanted spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Change {
    Add {
        node: NodeName,
        role: Role,
        /// Settings that differ from the defaults, by field.
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
    /// A setting of a node.
    Update {
        node: NodeName,
        field: &'static str,
        from: String,
        to: String,
        /// The node runs and has to restart.
        restart: bool,
        #[serde(skip)]
        role: Role,
    },
    /// A setting of the cluster, which cannot change.
    Replace {
        field: &'static str,
        from: String,
        to: String,
    },
}

impl Change {
    /// Why the change is refused; none if it is possible.
    pub fn obstacle(&self) -> Option<&'static str> {
        match self {
            Self::Replace { .. } => Some("fixed for the lifetime of the cluster"),
            Self::Update { field, role, .. } if FIXED.contains(field) => match role {
                Role::ControlPlane => Some("fixed for the lifetime of a control plane"),
                Role::Worker => Some("fixed for the lifetime of a node: delete it and add it again"),
            },
            _ => None,
        }
    }

    /// The worker that would have to be deleted and added again.
    pub fn renews(&self) -> Option<&NodeName> {
        match self {
            Self::Update { node, role: Role::Worker, .. } if self.obstacle().is_some() => Some(node),
            _ => None,
        }
    }

    /// Whether it changes the Node object while the node runs.
    pub fn updates_labels(&self) -> bool {
        matches!(self, Self::Update { field: LABELS | TAINTS, .. })
    }

    /// Whether it changes the published ports while the node runs.
    pub fn forwards(&self) -> bool {
        matches!(self, Self::Update { field: PORTS, .. })
    }

    /// The node that has to restart.
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
            f.write_str(" (restarts the node)")?;
        }
        Ok(())
    }
}

const ROLE: &str = "role";
const DRIVER: &str = "driver";
const ISOLATION: &str = "isolation";
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

/// Settings that are fixed for the lifetime of a node.
const FIXED: [&str; 8] =
    [ROLE, DRIVER, ISOLATION, KUBERNETES_VERSION, BUNDLE, EXTRA_CONFIG, FEATURE_GATES, KUBELET];
/// Settings that take effect when the node boots.
const AT_BOOT: [&str; 3] = [CPUS, MEMORY, MOUNTS];

/// All differences: those of the cluster first, then node by node, removed nodes last.
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
            ("network.subnet", range(network.subnet)),
            ("network.podSubnet", range(network.pod_subnet)),
            ("network.nodePodPrefix", network.node_pod_prefix.to_string()),
            ("network.serviceSubnet", network.service_subnet.to_string()),
            ("network.dnsDomain", network.dns_domain.clone()),
            ("network.cni", network.cni.to_string()),
            ("apiServer", listed(names.chain(api_server.ips.iter().map(ToString::to_string)))),
            ("apiServer.port", api_server.port.map(|port| port.to_string()).unwrap_or_default()),
            (
                "certificateAuthority",
                spec.certificate_authority
                    .as_ref()
                    .map(|path| path.display().to_string())
                    .unwrap_or_default(),
            ),
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

/// Compares one node; each comes with its cluster.
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

/// Settings of a node that differ from the defaults of its role.
fn settings((cluster, node): (&ClusterSpec, &NodeSpec)) -> BTreeMap<&'static str, String> {
    let plain = NodeSpec::plain(node.name.clone(), node.role);
    let pairs = fields((cluster, node)).into_iter().zip(fields((cluster, &plain)));
    pairs.filter(|(own, plain)| own != plain).map(|(own, _)| own).collect()
}

fn fields((cluster, node): (&ClusterSpec, &NodeSpec)) -> [(&'static str, String); 15] {
    // Naming the version of the cluster changes nothing.
    let own_version = node.kubernetes_version.as_ref().filter(|own| **own != cluster.kubernetes_version);
    [
        (ROLE, node.role.to_string()),
        (DRIVER, node.driver().to_string()),
        (ISOLATION, node.isolation.to_string()),
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

/// Joins items whose order does not matter.
fn listed_in_any_order(items: &[impl ToString]) -> String {
    let mut items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.sort();
    items.join(",")
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// Makes an empty value visible.
fn shown(value: String) -> String {
    if value.is_empty() { "(none)".to_owned() } else { value }
}

#[cfg(test)]
mod tests;
