//! `flotilla node add`

use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::node::add::{self, Making, Request};
use flotilla_spec::error::SpecError;
use flotilla_spec::{ClusterName, NodeName, Role};

use super::settings::{self, Of};
use crate::args::{NodeAddArgs, NodeMakingArgs};
use crate::cluster::Cx;
use crate::commands::failure;
use crate::commands::start::request::{all_parsed, parsed, runtime_problem};

pub(crate) fn run(cx: &Cx, args: &NodeAddArgs) -> Result<(), OpError> {
    let request = parse(&cx.name, args)?;
    cx.handle_signals()?;
    let added = cx.wait(add::run(&cx.context(), &request));
    let added = failure::kept(cx, args.failure, added)?;
    cx.screen.result(&super::nodes_json(&added), || {
        format!("added {} to cluster {}", super::named(&added.nodes), cx.name)
    });
    Ok(())
}

/// Reads every argument and tells of all that are wrong at once.
fn parse(cluster: &ClusterName, args: &NodeAddArgs) -> Result<Request, OpError> {
    let mut problems = Vec::new();
    let given = args.node.as_deref().or(args.name.as_deref());
    let typed = |text: &str| NodeName::typed(cluster, text);
    let names = (1..=args.count).map(|number| {
        let name =
            given.map(|given| if args.count > 1 { format!("{given}-{number}") } else { given.to_owned() });
        parsed(&mut problems, name.as_deref(), typed)
    });
    let names = names.collect();
    let role = if args.control_plane { Role::ControlPlane } else { Role::Worker };
    let settings = settings::parse(&args.settings, Of::NewNode, &mut problems);
    let making = making(&args.making, &mut problems);
    if !problems.is_empty() {
        return Err(EngineError::Spec(problems).into());
    }
    let (wait_limit, busy) = (args.waiting.wait_timeout, args.lock.busy());
    Ok(Request { cluster: cluster.clone(), names, role, settings, making, wait_limit, busy })
}

fn making(args: &NodeMakingArgs, problems: &mut Vec<SpecError>) -> Making {
    // No kubelet may be newer than its cluster: the newest that it can have is the cluster's.
    let is_newest = |word: &&str| ["stable", "latest"].contains(word);
    let version = args.kubernetes_version.as_deref().filter(|word| !word.is_empty());
    let making = Making {
        version: parsed(problems, version.filter(|word| !is_newest(word)), str::parse),
        is_clusters: version.is_some_and(|word| is_newest(&word)),
        bundle: args.bundle.clone(),
        extra_config: all_parsed(problems, &args.extra_config),
        feature_gates: parsed(problems, args.feature_gates.as_deref(), str::parse).unwrap_or_default(),
        isolation: parsed(problems, args.isolation.as_deref(), str::parse),
    };
    problems.extend(runtime_problem(args.container_runtime.as_deref()));
    making
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use flotilla_spec::{ClusterFile, NodeDefaults, NodeSpec};

    use super::*;
    use crate::args::{Cli, Command, NodeCommand};

    fn typed(flags: &[&str], defaults: &NodeDefaults) -> NodeSpec {
        let words = ["flotilla", "node", "add"].iter().chain(flags);
        let Command::Node(NodeCommand::Add(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command")
        };
        parse(&"demo".parse().unwrap(), &args).unwrap().node(defaults).unwrap()
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
}
