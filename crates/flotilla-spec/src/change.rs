//! What must change about a cluster so that it is as wanted: a pure function.

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
            Self::Replace { .. } | Self::Update { field: ROLE, .. } => Some("cannot change once it is made"),
            Self::Remove { role: Role::ControlPlane, .. } => Some("cannot go: the cluster is made from it"),
            Self::Update { field: LABELS | TAINTS, .. } => {
                Some("cannot be changed by flotilla yet; kubectl can, or delete the node and add it anew")
            }
            _ => None,
        }
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
            Self::Add { node, role } => write!(f, "+ node {node}: {role}")?,
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

/// Everything that differs: the cluster's own first, then node by node, those that go last.
pub fn changes(known: &ClusterSpec, wanted: &ClusterSpec) -> Vec<Change> {
    let mut changes = of_cluster(known, wanted);
    for node in &wanted.nodes {
        match known.nodes.iter().find(|known| known.name == node.name) {
            Some(known) => changes.extend(of_node(known, node)),
            None => changes.push(Change::Add { node: node.name.clone(), role: node.role }),
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
            ("kubernetesVersion", spec.kubernetes_version.to_string()),
            ("driver", spec.driver.to_string()),
            ("network.subnet", range(network.subnet)),
            ("network.podSubnet", range(network.pod_subnet)),
            ("network.nodePodPrefix", network.node_pod_prefix.to_string()),
            ("network.serviceSubnet", network.service_subnet.to_string()),
            ("network.dnsDomain", network.dns_domain.clone()),
            ("apiServer", listed(names.chain(api_server.ips.iter().map(ToString::to_string)))),
            ("extraConfig", listed(spec.extra_config.iter().map(ToString::to_string))),
            ("featureGates", spec.feature_gates.to_string()),
        ]
    };
    let pairs = fields(known).into_iter().zip(fields(wanted));
    let differing = pairs.filter(|(known, wanted)| known != wanted);
    differing
        .map(|((field, from), (_, to))| Change::Replace { field, from: shown(from), to: shown(to) })
        .collect()
}

fn of_node(known: &NodeSpec, wanted: &NodeSpec) -> Vec<Change> {
    let node = &wanted.name;
    let runs = (known.power, wanted.power) == (WantedPower::Running, WantedPower::Running);
    let fields = |spec: &NodeSpec| {
        [
            (ROLE, spec.role.to_string()),
            (CPUS, spec.cpus.to_string()),
            (MEMORY, spec.memory.to_string()),
            ("disk", spec.disk.map(crate::quantity::write_size).unwrap_or_default()),
            (LABELS, spec.labels.to_string()),
            (TAINTS, listed(spec.taints.iter().map(ToString::to_string))),
        ]
    };
    let pairs = fields(known).into_iter().zip(fields(wanted));
    let differing = pairs.filter(|(known, wanted)| known != wanted);
    let mut changes: Vec<_> = differing
        .map(|((field, from), (_, to))| Change::Update {
            node: node.clone(),
            field,
            from: shown(from),
            to: shown(to),
            restart: runs && [CPUS, MEMORY].contains(&field),
        })
        .collect();
    match (known.power, wanted.power) {
        (WantedPower::Stopped, WantedPower::Running) => changes.push(Change::Start { node: node.clone() }),
        (WantedPower::Running, WantedPower::Stopped) => changes.push(Change::Stop { node: node.clone() }),
        _ => {}
    }
    changes
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// Nothing has to be seen as well.
fn shown(value: String) -> String {
    if value.is_empty() { "(none)".to_owned() } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterFile, KubernetesVersion};

    const HEAD: &str = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n";

    fn newest() -> KubernetesVersion {
        "v1.37.1".parse().unwrap()
    }

    fn spec(rest: &str) -> ClusterSpec {
        ClusterFile::read("a.yaml", &format!("{HEAD}{rest}")).unwrap().expanded(&newest())
    }

    fn told(known: &str, wanted: &str) -> String {
        let lines: Vec<_> = changes(&spec(known), &spec(wanted)).iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn a_cluster_that_is_as_wanted_has_nothing_to_change() {
        let text = "nodes: [{count: 3, memory: 2g, labels: {a: b}}, {name: x, state: stopped}]";
        assert_eq!(told(text, text), "");
        // In another order they are the same nodes.
        assert_eq!(told("nodes: [{}, {name: a}, {name: b}]", "nodes: [{}, {name: b}, {name: a}]"), "");
    }

    #[test]
    fn nodes_come_change_and_go() {
        let known =
            "nodes: [{}, {name: a, memory: 1g, disk: 10g}, {name: b, state: stopped}, {name: c}, {name: d}]";
        let wanted =
            "nodes: [{}, {name: a, memory: 2g, cpus: 2}, {name: b}, {name: c, state: stopped}, {name: e}]";
        insta::assert_snapshot!(told(known, wanted), @"
        ~ node a: cpus no-limit -> 2 (needs a restart of that node)
        ~ node a: memory 1Gi -> 2Gi (needs a restart of that node)
        ~ node a: disk 10Gi -> (none)
        ~ node b: start
        ~ node c: stop
        + node e: worker
        - node d
        ");
        assert!(changes(&spec(known), &spec(wanted)).iter().all(|change| change.obstacle().is_none()));
    }

    #[test]
    fn the_control_plane_stays() {
        let told = told("nodes: [{}, {name: a}]", "nodes: [{name: b}, {name: a}]");
        assert_eq!(told, "+ node b: control plane\n- node demo (cannot go: the cluster is made from it)");
    }

    #[test]
    fn what_cannot_change_says_why() {
        let known = "nodes: [{}, {name: a}]";
        let wanted = "\
kubernetesVersion: v1.36.4
network: {subnet: 10.1.0.0/24, podSubnet: 10.9.0.0/16, nodePodPrefix: 25, serviceSubnet: 10.97.0.0/16, dnsDomain: x.y}
apiServer: {names: [a.b], ips: [1.2.3.4]}
extraConfig: [kubelet.max-pods=50]
featureGates: {A: true}
nodes: [{labels: {a: b}}, {name: a, role: control-plane, taints: ['a=b:NoSchedule']}]
";
        insta::assert_snapshot!(told(known, wanted), @"
        ~ kubernetesVersion v1.37.1 -> v1.36.4 (cannot change once it is made)
        ~ network.subnet (none) -> 10.1.0.0/24 (cannot change once it is made)
        ~ network.podSubnet (none) -> 10.9.0.0/16 (cannot change once it is made)
        ~ network.nodePodPrefix 24 -> 25 (cannot change once it is made)
        ~ network.serviceSubnet 10.96.0.0/12 -> 10.97.0.0/16 (cannot change once it is made)
        ~ network.dnsDomain cluster.local -> x.y (cannot change once it is made)
        ~ apiServer (none) -> a.b,1.2.3.4 (cannot change once it is made)
        ~ extraConfig (none) -> kubelet.max-pods=50 (cannot change once it is made)
        ~ featureGates (none) -> A=true (cannot change once it is made)
        ~ node demo: labels (none) -> a=b (cannot be changed by flotilla yet; kubectl can, or delete the node and add it anew)
        ~ node a: role worker -> control plane (cannot change once it is made)
        ~ node a: taints (none) -> a=b:NoSchedule (cannot be changed by flotilla yet; kubectl can, or delete the node and add it anew)
        ");
        let all = changes(&spec(known), &spec(wanted));
        assert!(all.iter().all(|change| change.obstacle().is_some()), "{all:?}");
    }
}
