//! Every command: what makes it succeed, and what makes it be refused.

use std::collections::BTreeSet;

use super::world::World;

/// A command and two ways to run it.
pub(super) struct Case {
    /// Its words, as `--help` lists them.
    pub(super) command: &'static str,
    /// What ran before, successfully.
    pub(super) before: &'static [&'static str],
    /// A line that succeeds then.
    pub(super) line: &'static str,
    /// A line that is refused then, and the code of the error.
    pub(super) refused: (&'static str, &'static str),
    pub(super) kind: Kind,
    /// The code of the error by which the same line says that a killed one was done.
    pub(super) again: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes something: killed at any call, the same line again reaches the same end.
    Changes,
    /// It only reads.
    Reads,
}
use Kind::{Changes, Reads};

/// Three control planes and a worker.
const LARGE: &[&str] = &["start --control-planes 3 --nodes 4"];
const SMALL: &[&str] = &["start --nodes 2"];
const STOPPED: &[&str] = &["start --nodes 2", "stop"];
const PAUSED: &[&str] = &["start", "pause"];
/// A cluster, and a bundle that it does not use.
const OTHER_BUNDLE: &[&str] = &["start --nodes 2", "bundle build --kubernetes-version v1.36.4"];
const NO_BUNDLE: &str = "BUNDLE_NOT_FOUND";
const NO_CLUSTER: &str = "GUEST_NO_CLUSTER";
const NO_NODE: &str = "GUEST_NODE_NOT_FOUND";

const fn case(
    command: &'static str,
    kind: Kind,
    before: &'static [&'static str],
    line: &'static str,
    refused: (&'static str, &'static str),
) -> Case {
    Case { command, before, line, refused, kind, again: None }
}

pub(super) const CASES: &[Case] = &[
    case(
        "start",
        Changes,
        &[],
        "start --control-planes 3 --nodes 4",
        ("start --memory 1m", "RSRC_INSUFFICIENT_REQ_MEMORY"),
    ),
    case("start", Changes, STOPPED, "start", ("start --nodes 3", "MK_CONFLICT")),
    case(
        "apply",
        Changes,
        SMALL,
        "apply -f HOME/cluster.yaml --yes",
        ("apply -f HOME/missing.yaml", "MK_CONFIG"),
    ),
    case("diff", Reads, SMALL, "diff -f HOME/same.yaml", ("diff -f HOME/missing.yaml", "MK_CONFIG")),
    case("export", Reads, SMALL, "export", ("export -p absent", NO_CLUSTER)),
    case("status", Reads, SMALL, "status", ("status -p absent", NO_CLUSTER)),
    case("list", Reads, SMALL, "list", ("list --wrong", "")),
    case("profile list", Reads, SMALL, "profile list", ("profile list --wrong", "")),
    case("get clusters", Reads, SMALL, "get clusters", ("get clusters --wrong", "")),
    case("stop", Changes, SMALL, "stop", ("stop -p absent", NO_CLUSTER)),
    case("delete", Changes, SMALL, "delete", ("delete --wrong", "")),
    case("pause", Changes, SMALL, "pause", ("pause -p absent", NO_CLUSTER)),
    case("unpause", Changes, PAUSED, "unpause", ("unpause -p absent", NO_CLUSTER)),
    case("node add", Changes, SMALL, "node add extra", ("node add m02", "MK_USAGE")),
    case(
        "node add",
        Changes,
        LARGE,
        "node add extra --control-plane",
        ("node add extra --memory 1m", "RSRC_INSUFFICIENT_REQ_MEMORY"),
    ),
    case(
        "node start",
        Changes,
        &["start --nodes 2", "node stop m02"],
        "node start m02",
        ("node start m09", NO_NODE),
    ),
    case("node stop", Changes, SMALL, "node stop m02", ("node stop flotilla", "GUEST_QUORUM")),
    case("node stop", Changes, LARGE, "node stop m02", ("node stop m09", NO_NODE)),
    case(
        "node delete",
        Changes,
        SMALL,
        "node delete m02",
        ("node delete flotilla", "GUEST_LAST_CONTROL_PLANE"),
    ),
    case("node delete", Changes, LARGE, "node delete m02", ("node delete m09", NO_NODE)),
    case(
        "node update",
        Changes,
        SMALL,
        "node update m02 --labels a=b --memory 3g --yes",
        ("node update m09 --labels a=b", NO_NODE),
    ),
    case("node list", Reads, SMALL, "node list", ("node list -p absent", NO_CLUSTER)),
    case("node status", Reads, SMALL, "node status m02", ("node status m09", NO_NODE)),
    case("node ip", Reads, SMALL, "node ip m02", ("node ip m09", NO_NODE)),
    case("node pause", Changes, SMALL, "node pause m02", ("node pause m09", NO_NODE)),
    case(
        "node unpause",
        Changes,
        &["start --nodes 2", "node pause m02"],
        "node unpause m02",
        ("node unpause m09", NO_NODE),
    ),
    case(
        "node cp",
        Changes,
        SMALL,
        "node cp HOME/same.yaml m02:/tmp/x",
        ("node cp HOME/same.yaml m09:/tmp/x", NO_NODE),
    ),
    case("cp", Changes, SMALL, "cp HOME/same.yaml m02:/tmp/x", ("cp HOME/same.yaml m09:/tmp/x", NO_NODE)),
    case("etcd status", Reads, LARGE, "etcd status", ("etcd status -p absent", NO_CLUSTER)),
    case(
        "etcd snapshot save",
        Changes,
        LARGE,
        "etcd snapshot save HOME/new.snap",
        ("etcd snapshot save HOME/new.snap -p absent", NO_CLUSTER),
    ),
    case(
        "etcd snapshot restore",
        Changes,
        &["start --control-planes 3 --nodes 4", "etcd snapshot save HOME/old.snap"],
        "etcd snapshot restore HOME/old.snap --yes",
        ("etcd snapshot restore HOME/missing.snap --yes", "HOST_IO"),
    ),
    Case {
        again: Some("GUEST_HAS_QUORUM"),
        ..case("recover", Changes, LARGE, "recover --yes", ("recover -p absent", NO_CLUSTER))
    },
    case("ssh", Reads, SMALL, "ssh m02 -- hostname", ("ssh -n m09", NO_NODE)),
    case("node ssh", Reads, SMALL, "node ssh m02 -- hostname", ("node ssh m09", NO_NODE)),
    case("logs", Reads, SMALL, "logs -f", ("logs m09", NO_NODE)),
    case("logs", Reads, STOPPED, "logs m02", ("logs -f m02", "GUEST_NOT_RUNNING")),
    case("node logs", Reads, SMALL, "node logs m02", ("node logs m09", NO_NODE)),
    case("ip", Reads, SMALL, "ip", ("ip -p absent", NO_CLUSTER)),
    case("doctor", Reads, SMALL, "doctor", ("doctor --wrong", "")),
    case("update-context", Changes, SMALL, "update-context", ("update-context -p absent", NO_CLUSTER)),
    case("kubectl", Reads, SMALL, "kubectl get nodes", ("-p absent kubectl get nodes", NO_CLUSTER)),
    case("bundle list", Reads, OTHER_BUNDLE, "bundle list", ("bundle list --wrong", "")),
    case("bundle show", Reads, OTHER_BUNDLE, "bundle show v1.36.4", ("bundle show v1.30.0", NO_BUNDLE)),
    case("bundle verify", Reads, OTHER_BUNDLE, "bundle verify v1.36.4", ("bundle verify v1.30.0", NO_BUNDLE)),
    case(
        "bundle build",
        Changes,
        &[],
        "bundle build --kubernetes-version v1.36.4",
        ("bundle build --kubernetes-version v1.30.0", NO_BUNDLE),
    ),
    case("bundle clean", Changes, OTHER_BUNDLE, "bundle clean", ("bundle clean --wrong", "")),
    Case {
        again: Some(NO_BUNDLE),
        ..case(
            "bundle remove",
            Changes,
            OTHER_BUNDLE,
            "bundle remove v1.36.4",
            ("bundle remove v1.37.1", "BUNDLE_IN_USE"),
        )
    },
    case(
        "bundle export",
        Changes,
        OTHER_BUNDLE,
        "bundle export v1.36.4 HOME/new.bundle",
        ("bundle export v1.30.0 HOME/new.bundle", NO_BUNDLE),
    ),
    case(
        "bundle import",
        Changes,
        &[
            "start",
            "bundle build --kubernetes-version v1.36.4",
            "bundle export v1.36.4 HOME/old.bundle",
            "bundle remove v1.36.4",
        ],
        "bundle import HOME/old.bundle",
        ("bundle import HOME/missing.bundle", "HOST_IO"),
    ),
    case("schema", Reads, &[], "schema", ("schema --wrong", "")),
    case("version", Reads, &[], "version", ("version --wrong", "")),
    case("completion", Reads, &[], "completion bash", ("completion nonsense", "")),
];

/// Commands that are refused whatever runs, and the code of the error.
pub(super) const REFUSED: &[(&str, &str)] = &[("docker-env", "MK_USAGE"), ("node docker-env", "MK_USAGE")];

#[test]
fn no_command_is_forgotten() {
    let refused = REFUSED.iter().map(|(command, _)| *command);
    let known: BTreeSet<_> = CASES.iter().map(|case| case.command).chain(refused).collect();
    let mut all = BTreeSet::new();
    leaves(&flotilla::command(), "", &mut all);
    let all: BTreeSet<_> = all.iter().map(String::as_str).collect();
    assert_eq!(known, all);
}

fn leaves(command: &clap::Command, before: &str, into: &mut BTreeSet<String>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("{before}{}", sub.get_name());
        if sub.has_subcommands() {
            leaves(sub, &format!("{name} "), into);
        } else {
            into.insert(name);
        }
    }
}

/// A world on which a case's commands have run, with the files that lines name.
pub(super) fn prepared(case: &Case) -> World {
    let world = World::after(case.before);
    if case.command == "recover" {
        world.lose(&["flotilla", "flotilla-m02"]);
    }
    if case.line.contains(".yaml") {
        let exported = world.run("export").stdout;
        world.write("same.yaml", &exported);
        world.write("cluster.yaml", &format!("{exported}- {{name: flotilla-extra, role: worker}}\n"));
        world.host.calls.take();
    }
    world
}

/// Checks every case, and reports all that fail at once.
pub(super) fn for_all(
    cases: impl Iterator<Item = &'static Case>,
    check: impl Fn(&Case) -> Result<(), String>,
) {
    let failed: Vec<_> = cases.filter_map(|case| check(case).err()).collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// An error with what was run unless a condition holds.
pub(super) fn ensure(holds: bool, what: impl std::fmt::Display) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_string()) }
}

#[test]
fn every_command_succeeds() {
    for_all(CASES.iter(), |case| {
        let ran = prepared(case).run(case.line);
        ensure(ran.status == 0 && !ran.stderr.contains("error"), format!("`{}`: {ran}", case.line))
    });
}
