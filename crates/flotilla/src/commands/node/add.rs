//! `flotilla node add`

use flotilla_engine::{Cluster, EngineError};
use flotilla_spec::error::SpecError;
use flotilla_spec::quantity::parse_disk;
use flotilla_spec::{NodeName, NodeSpec, Role};
use serde_json::json;

use crate::args::NodeAddArgs;
use crate::cluster::{Cx, this_host};
use crate::commands::start::wait;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, args: &NodeAddArgs) -> Result<(), Failure> {
    let node = wanted(args)?;
    cx.cluster()?;
    cx.heed_signals()?;
    let _lock = cx.lock(&cx.name, "flotilla node add", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let added = add(cx, &mut cluster, args, &node)?;
    let problems = cluster.spec.check(&this_host());
    if !problems.is_empty() {
        return Err(EngineError::Spec(problems).into());
    }
    cx.store.save(&cluster)?;
    cx.wait(cx.engine().start(&cluster, &wait::default()))?;
    let value =
        json!({"cluster": cx.name.as_ref(), "nodes": added.iter().map(AsRef::as_ref).collect::<Vec<&str>>()});
    cx.screen.result(&value, || format!("{} joined cluster {}", super::joined(&added), cx.name));
    Ok(())
}

/// What was typed, as the spec of a node without a name.
fn wanted(args: &NodeAddArgs) -> Result<NodeSpec, Failure> {
    let settings = &args.settings;
    let placeholder: NodeName = "node".parse()?;
    let mut node = NodeSpec::plain(placeholder, Role::Worker);
    if let Some(cpus) = &settings.cpus {
        node.cpus = cpus.parse()?;
    }
    if let Some(memory) = &settings.memory {
        node.memory = memory.parse()?;
    }
    if let Some(disk) = &settings.disk_size {
        node.disk = Some(parse_disk(disk)?);
    }
    if let Some(labels) = &settings.labels {
        node.labels = labels.parse()?;
    }
    node.taints = settings.taints.iter().map(|taint| taint.parse()).collect::<Result<_, SpecError>>()?;
    Ok(node)
}

/// Puts the nodes into the spec and hands out their numbers. Gives their names.
fn add(
    cx: &Cx,
    cluster: &mut Cluster,
    args: &NodeAddArgs,
    node: &NodeSpec,
) -> Result<Vec<NodeName>, Failure> {
    let given = args.node.as_ref().or(args.name.as_ref());
    let prefix = cluster.spec.network.node_pod_prefix;
    let mut added = Vec::new();
    for count in 1..=args.count.max(1) {
        let next = cluster.handed_out.next_number(prefix).ok_or(SpecError::NoAddressLeft)?;
        let name: NodeName = match given {
            None => NodeName::default_for(&cx.name, next),
            Some(name) if args.count > 1 => format!("{name}-{count}").parse()?,
            Some(name) => name.parse()?,
        };
        cluster.spec.nodes.push(NodeSpec { name: name.clone(), ..node.clone() });
        if cluster.handed_out.nodes.contains_key(&name) {
            return Err(SpecError::DuplicateNode { name }.into());
        }
        cluster.handed_out.hand_out(&name, prefix).ok_or(SpecError::NoAddressLeft)?;
        added.push(name);
    }
    Ok(added)
}
