//! `flotilla node add`

use std::collections::BTreeMap;

use flotilla_bundle::BundleStore;
use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_ops::{OpError, bring_up};
use flotilla_spec::error::SpecError;
use flotilla_spec::{ExtraOption, FeatureGates, KubernetesVersion, NodeDefaults, NodeName, NodeSpec, Role};
use serde_json::json;

use super::settings::{Of, Settings};
use crate::args::{NodeAddArgs, NodeMakingArgs};
use crate::cluster::{Cx, prepare, this_host};
use crate::commands::start::request::{all_parsed, parsed, runtime_problem};
use crate::commands::start::wait;

pub(crate) fn run(cx: &Cx, args: &NodeAddArgs) -> Result<(), OpError> {
    let typed = Typed::parse(cx, args)?;
    cx.cluster()?;
    cx.handle_signals()?;
    let locked = cx.lock(&cx.name, "flotilla node add", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    super::control_plane_is_to_run(&cluster)?;
    let wanted = typed.over(&cluster.spec.node_defaults)?;
    let known = cluster.spec.clone();
    let added = add(&mut cluster, &wanted)?;
    let problems = known.new_problems(problems(&cluster), &this_host());
    if !problems.is_empty() {
        return Err(EngineError::Spec(problems).into());
    }
    let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
    prepare::check(cx, &bundle_store, &cluster)?;
    // Others are not started or unpaused for it.
    cx.wait(cx.engine().require_api(&cluster))?;
    prepare::warn(cx, &cluster.spec);
    let _held = prepare::save(cx, &mut cluster)?;
    cx.wait(bring_up::start_nodes(&cx.context(), &locked, &mut cluster, &added, &wait::default()))?;
    let value =
        json!({"cluster": cx.name.as_ref(), "nodes": added.iter().map(AsRef::as_ref).collect::<Vec<&str>>()});
    cx.screen.result(&value, || format!("{} joined cluster {}", super::joined(&added), cx.name));
    Ok(())
}

/// What was typed.
struct Typed {
    /// None: one that is free.
    names: Vec<Option<NodeName>>,
    role: Role,
    settings: Settings,
    making: Making,
}

/// What is to be there.
struct Wanted {
    /// None: one that is free.
    names: Vec<Option<NodeName>>,
    /// But for its name.
    node: NodeSpec,
}

/// What a node is made with.
struct Making {
    version: Option<KubernetesVersion>,
    /// It is to have the cluster's version, whatever others have.
    is_clusters: bool,
    bundle: Option<String>,
    extra_config: Vec<ExtraOption>,
    feature_gates: FeatureGates,
}

impl Typed {
    /// Reads every argument and tells of all that are wrong at once.
    fn parse(cx: &Cx, args: &NodeAddArgs) -> Result<Self, OpError> {
        let mut problems = Vec::new();
        let given = args.node.as_deref().or(args.name.as_deref());
        let typed = |text: &str| NodeName::typed(&cx.name, text);
        let names = (1..=args.count).map(|number| {
            let name = given
                .map(|given| if args.count > 1 { format!("{given}-{number}") } else { given.to_owned() });
            parsed(&mut problems, name.as_deref(), typed)
        });
        let names = names.collect();
        let role = if args.control_plane { Role::ControlPlane } else { Role::Worker };
        let settings = Settings::parse(&args.settings, Of::NewNode, &mut problems);
        let making = Making::parse(&args.making, &mut problems);
        let typed = Self { names, role, settings, making };
        if problems.is_empty() { Ok(typed) } else { Err(EngineError::Spec(problems).into()) }
    }

    /// Over what all nodes of the cluster have that do not say otherwise.
    fn over(self, defaults: &NodeDefaults) -> Result<Wanted, SpecError> {
        // Each node gets its own name in the end.
        let mut node = defaults.node("node".parse()?, self.role);
        self.settings.apply_to(&mut node)?;
        self.making.apply_to(&mut node)?;
        Ok(Wanted { names: self.names, node })
    }
}

impl Making {
    fn parse(args: &NodeMakingArgs, problems: &mut Vec<SpecError>) -> Self {
        // No kubelet may be newer than its cluster: the newest that it can have is the cluster's.
        let is_newest = |word: &&str| ["stable", "latest"].contains(word);
        let version = args.kubernetes_version.as_deref();
        let making = Self {
            version: parsed(problems, version.filter(|word| !is_newest(word)), str::parse),
            is_clusters: version.is_some_and(|word| is_newest(&word)),
            bundle: args.bundle.clone(),
            extra_config: all_parsed(problems, &args.extra_config),
            feature_gates: parsed(problems, args.feature_gates.as_deref(), str::parse).unwrap_or_default(),
        };
        problems.extend(runtime_problem(&args.runtime));
        making
    }

    fn apply_to(self, node: &mut NodeSpec) -> Result<(), SpecError> {
        // Either says what it is made from.
        if self.version.is_some() || self.bundle.is_some() || self.is_clusters {
            (node.kubernetes_version, node.bundle) = (self.version, self.bundle);
        }
        if !self.extra_config.is_empty() {
            node.extra_config = self.extra_config;
        }
        let mut gates = BTreeMap::from(node.feature_gates.clone());
        gates.extend(BTreeMap::from(self.feature_gates));
        node.feature_gates = gates.try_into()?;
        Ok(())
    }
}

/// Puts the nodes into the spec and hands out their numbers. Gives their names.
fn add(cluster: &mut Cluster, wanted: &Wanted) -> Result<Vec<NodeName>, SpecError> {
    let unfinished = unfinished(cluster, &wanted.node);
    let prefix = cluster.spec.network.node_pod_prefix;
    let mut added: Vec<NodeName> = Vec::new();
    for name in &wanted.names {
        let left = unfinished.iter().find(|left| match name {
            Some(name) => name == *left,
            None => left.short(cluster.name()) != left.as_ref() && !added.contains(left),
        });
        if let Some(left) = left {
            added.push(left.clone());
            continue;
        }
        let none_left = || SpecError::NoAddressLeft { node: name.clone() };
        let next = cluster.allocations.next_number(prefix).ok_or_else(none_left)?;
        let new = name.clone().unwrap_or_else(|| free_name(cluster, next));
        cluster.spec.nodes.push(NodeSpec { name: new.clone(), ..wanted.node.clone() });
        cluster.allocations.allocate(&new, prefix).ok_or_else(none_left)?;
        added.push(new);
    }
    cluster.allocations.adding.extend(added.iter().cloned());
    Ok(added)
}

/// What is wrong with the cluster now. A name that is there twice is one that was typed.
fn problems(cluster: &Cluster) -> Vec<SpecError> {
    let typed = |problem| match problem {
        SpecError::DuplicateNode { name } => SpecError::NodeThere { name },
        other => other,
    };
    cluster.spec.check(&this_host()).into_iter().map(typed).collect()
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
    use clap::Parser;
    use flotilla_core::Allocations;
    use flotilla_spec::ClusterFile;

    use super::*;
    use crate::args::{Cli, Command, NodeCommand};

    fn cluster(nodes: &str) -> Cluster {
        let text = format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nnodes: [{nodes}]");
        let spec = ClusterFile::read("a.yaml", &text).unwrap().expanded(&"v1.37.1".parse().unwrap());
        let (subnet, pods) = ("10.213.0.0/24".parse().unwrap(), "10.244.0.0/16".parse().unwrap());
        let allocations = Allocations::new(subnet, pods, String::new());
        Cluster { spec, allocations }
    }

    fn typed(flags: &[&str], defaults: &NodeDefaults) -> NodeSpec {
        let words = ["flotilla", "node", "add"].iter().chain(flags);
        let Command::Node(NodeCommand::Add(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command")
        };
        let mut problems = Vec::new();
        let settings = Settings::parse(&args.settings, Of::NewNode, &mut problems);
        let making = Making::parse(&args.making, &mut problems);
        assert_eq!(problems, []);
        Typed { names: Vec::new(), role: Role::Worker, settings, making }.over(defaults).unwrap().node
    }

    #[test]
    fn a_node_begins_with_what_all_have_and_its_own_flags_win() {
        let spec = "kubernetesVersion: v1.36.4, cpus: 2, memory: 3g, labels: {a: b, c: d}, featureGates: {A: true, B: true}, \
            extraConfig: [kubelet.v=4], mounts: ['/a:/b', '/c:/d']";
        let text =
            format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nnodeDefaults: {{{spec}}}");
        let file = ClusterFile::read("a.yaml", &text).unwrap().expanded(&"v1.37.1".parse().unwrap());
        let defaults = &file.node_defaults;
        assert_eq!(typed(&[], defaults), defaults.node("node".parse().unwrap(), Role::Worker));
        let flags = [
            "--memory=no-limit",
            "--labels=c=e",
            "--feature-gates=B=false",
            "--extra-config=kubelet.v=5",
            "--mount=/e:/d",
            "--kubernetes-version=stable",
        ];
        let own = typed(&flags, defaults);
        assert_eq!((own.cpus.to_string(), own.memory.to_string()), ("2".into(), "no-limit".into()));
        assert_eq!(
            (own.labels.to_string(), own.feature_gates.to_string()),
            ("a=b,c=e".into(), "A=true,B=false".into())
        );
        assert_eq!(own.mounts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/a:/b", "/e:/d"]);
        assert_eq!((own.extra_config.len(), own.kubernetes_version), (1, None));
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
        let names = names.iter().map(|name| name.map(|name| name.parse().unwrap())).collect();
        let mut node = NodeSpec::plain("demo".parse().unwrap(), Role::Worker);
        node.labels = labels.parse().unwrap();
        let added = add(cluster, &Wanted { names, node }).unwrap();
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
            assert_eq!(problems(&cluster), []);
        }
    }

    #[test]
    fn what_was_finished_or_is_different_is_left_alone() {
        for (adding, labels) in [(&[][..], ""), (&["demo-m02", "demo-m04"], "disk=ssd")] {
            let mut cluster = cluster(NODES);
            assert_eq!(added(&mut cluster, adding, &[None], labels), ["demo-m05"]);
            assert_eq!(problems(&cluster), []);
        }
        let mut cluster = cluster(NODES);
        added(&mut cluster, &[], &[Some("extra")], "");
        let name = "extra".parse().unwrap();
        assert_eq!(problems(&cluster), [SpecError::NodeThere { name }]);
    }
}
