//! `flotilla node add`: adds nodes to a cluster that runs.

use std::collections::BTreeMap;
use std::time::Duration;

use flotilla_core::{Changed, Cluster};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::error::SpecError;
use flotilla_spec::{
    ClusterName, ExtraOption, FeatureGates, HostSize, Isolation, KubernetesVersion, NodeDefaults, NodeName,
    NodeSpec, Role,
};
use serde::{Deserialize, Serialize};

use super::NodesChanged;
use super::settings::Settings;
use crate::{Context, OpError, admission, bring_up};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// One for each new node; none: a name that is free.
    pub names: Vec<Option<NodeName>>,
    pub role: Role,
    pub settings: Settings,
    pub making: Making,
    /// How long to wait until the nodes take pods.
    pub wait_limit: Duration,
    pub busy: WhenBusy,
}

/// What a node is made with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Making {
    pub version: Option<KubernetesVersion>,
    /// It is to have the cluster's version, whatever the defaults say.
    pub is_clusters: bool,
    pub bundle: Option<String>,
    pub extra_config: Vec<ExtraOption>,
    pub feature_gates: FeatureGates,
    pub isolation: Option<Isolation>,
}

/// The nodes that are to exist.
struct Wanted<'a> {
    names: &'a [Option<NodeName>],
    /// But for its name.
    node: NodeSpec,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<NodesChanged, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    let locked = cx.lock(&request.cluster, "flotilla node add", request.busy)?;
    let mut cluster = locked.refresh_existing(peeked)?;
    super::require_running_control_plane(&cluster)?;
    let node = request.node(&cluster.spec.node_defaults)?;
    let known = cluster.spec.clone();
    let nodes = add(&mut cluster, &Wanted { names: &request.names, node })?;
    admission::refuse(known.new_problems(problems(&cluster, &cx.host), &cx.host), None)?;
    admission::check(cx, &cluster).await?;
    // Others are not started or unpaused for it.
    let engine = cx.engine(&request.cluster);
    engine.require_api(&cluster).await?;
    admission::warn(cx, &cluster.spec);
    let _held = admission::save(cx, &engine, &locked, &mut cluster).await?;
    let wait = Wait::for_nodes(request.wait_limit);
    bring_up::start_nodes(&engine, &locked, &mut cluster, &nodes, &wait).await?;
    Ok(NodesChanged { cluster: request.cluster.clone(), nodes, changed: Changed::Yes })
}

impl Request {
    /// What all nodes of the cluster have that do not say otherwise, and over that what was asked for.
    pub fn node(&self, defaults: &NodeDefaults) -> Result<NodeSpec, SpecError> {
        // Each node gets its own name in the end.
        let mut node = defaults.node("node".parse()?, self.role);
        self.settings.apply_to(&mut node)?;
        self.making.clone().apply_to(&mut node)?;
        Ok(node)
    }
}

impl Making {
    fn apply_to(self, node: &mut NodeSpec) -> Result<(), SpecError> {
        // Either says what it is made from.
        if self.version.is_some() || self.bundle.is_some() || self.is_clusters {
            (node.kubernetes_version, node.bundle) = (self.version, self.bundle);
        }
        if !self.extra_config.is_empty() {
            node.extra_config = self.extra_config;
        }
        node.isolation = self.isolation.unwrap_or(node.isolation);
        let mut gates = BTreeMap::from(node.feature_gates.clone());
        gates.extend(BTreeMap::from(self.feature_gates));
        node.feature_gates = gates.try_into()?;
        Ok(())
    }
}

/// Puts the nodes into the spec and hands out their numbers. Gives their names.
fn add(cluster: &mut Cluster, wanted: &Wanted<'_>) -> Result<Vec<NodeName>, SpecError> {
    let unfinished = unfinished(cluster, &wanted.node);
    let prefix = cluster.spec.network.node_pod_prefix;
    let mut added: Vec<NodeName> = Vec::new();
    for name in wanted.names {
        let left = unfinished.iter().find(|left| match name {
            Some(name) => name == *left,
            None => left.short(cluster.name()) != left.as_ref() && !added.contains(left),
        });
        if let Some(left) = left {
            added.push(left.clone());
            continue;
        }
        let none_left = || SpecError::NoAddressLeft { node: name.clone() };
        let next = cluster.allocations.next(prefix).ok_or_else(none_left)?.number;
        let new = name.clone().unwrap_or_else(|| free_name(cluster, next));
        cluster.spec.nodes.push(NodeSpec { name: new.clone(), ..wanted.node.clone() });
        cluster.allocations.allocate(&new, prefix).ok_or_else(none_left)?;
        added.push(new);
    }
    cluster.allocations.adding.extend(added.iter().cloned());
    Ok(added)
}

/// What is wrong with the cluster now. A name that is there twice is one that was typed.
fn problems(cluster: &Cluster, host: &HostSize) -> Vec<SpecError> {
    let typed = |problem| match problem {
        SpecError::DuplicateNode { name } => SpecError::NodeThere { name },
        other => other,
    };
    cluster.spec.check(host).into_iter().map(typed).collect()
}

/// The default name of the node with that number, or the next that nobody was given.
fn free_name(cluster: &Cluster, number: u32) -> NodeName {
    let mut names = (number..).map(|number| NodeName::default_for(cluster.name(), number));
    let is_free = |name: &NodeName| !cluster.spec.nodes.iter().any(|node| node.name == *name);
    names.find(is_free).expect("there are more names than nodes")
}

/// Nodes like that, which a killed or failed command was adding: the same command again goes on with them.
fn unfinished(cluster: &Cluster, wanted: &NodeSpec) -> Vec<NodeName> {
    let is_alike = |node: &&NodeSpec| **node == NodeSpec { name: node.name.clone(), ..wanted.clone() };
    let alike = cluster.spec.nodes.iter().filter(is_alike).map(|node| &node.name);
    alike.filter(|name| cluster.allocations.adding.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use flotilla_core::Allocations;
    use flotilla_spec::ClusterFile;

    use super::*;

    const HOST: HostSize = HostSize { cpus: 8, memory: 32 << 30 };

    fn cluster(nodes: &str) -> Cluster {
        let text = format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nnodes: [{nodes}]");
        let spec = ClusterFile::read("a.yaml", &text).unwrap().expanded(&"v1.37.1".parse().unwrap());
        let (subnet, pods) = ("10.213.0.0/24".parse().unwrap(), "10.244.0.0/16".parse().unwrap());
        let allocations = Allocations::new(subnet, pods, String::new());
        Cluster::new(spec, allocations)
    }

    #[test]
    fn a_default_name_that_somebody_was_given_is_passed_over() {
        let cluster = cluster("{}, {name: demo-m02}, {name: demo-m05}, {name: demo-m06}");
        for (number, name) in [(3, "demo-m03"), (5, "demo-m07"), (2, "demo-m03"), (1, "demo-m03")] {
            assert_eq!(free_name(&cluster, number).as_ref(), name, "{number}");
        }
    }

    /// What the command adds to a cluster that has `adding` left from an earlier one.
    fn added(cluster: &mut Cluster, adding: &[&str], names: &[Option<&str>], labels: &str) -> Vec<String> {
        cluster.allocations.adding = adding.iter().map(|name| name.parse().unwrap()).collect();
        cluster.allocate().unwrap();
        let names: Vec<_> = names.iter().map(|name| name.map(|name| name.parse().unwrap())).collect();
        let mut node = NodeSpec::plain("demo".parse().unwrap(), Role::Worker);
        node.labels = labels.parse().unwrap();
        let added = add(cluster, &Wanted { names: &names, node }).unwrap();
        assert!(added.iter().all(|name| cluster.allocations.adding.contains(name)));
        added.iter().map(ToString::to_string).collect()
    }

    const NODES: &str = "{}, {name: demo-m02}, {name: extra}, {name: demo-m04}";

    #[test]
    fn what_a_killed_command_was_adding_is_gone_on_with() {
        let left = ["extra", "demo-m02", "demo-m04"];
        for (names, expected) in [
            (&[Some("extra")][..], &["extra"][..]),
            (&[None], &["demo-m02"]),
            (&[None, None], &["demo-m02", "demo-m04"]),
            (&[None, None, None], &["demo-m02", "demo-m04", "demo-m05"]),
        ] {
            let mut cluster = cluster(NODES);
            assert_eq!(added(&mut cluster, &left, names, ""), expected);
            assert_eq!(problems(&cluster, &HOST), []);
        }
    }

    #[test]
    fn what_was_finished_or_is_different_is_left_alone() {
        for (adding, labels) in [(&[][..], ""), (&["demo-m02", "demo-m04"], "disk=ssd")] {
            let mut cluster = cluster(NODES);
            assert_eq!(added(&mut cluster, adding, &[None], labels), ["demo-m05"]);
            assert_eq!(problems(&cluster, &HOST), []);
        }
        let mut cluster = cluster(NODES);
        added(&mut cluster, &[], &[Some("extra")], "");
        let name = "extra".parse().unwrap();
        assert_eq!(problems(&cluster, &HOST), [SpecError::NodeThere { name }]);
    }
}
