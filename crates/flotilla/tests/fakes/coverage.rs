//! Every command that touches clusters: what makes it succeed, and what makes it be refused.

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
    case("doctor", Reads, &[], "doctor", ("doctor --wrong", "")),
    case("update-context", Changes, SMALL, "update-context", ("update-context -p absent", NO_CLUSTER)),
];

/// Commands that need no world, and `kubectl`, whose program replaces ours: the tests of the real binary have them.
const ELSEWHERE: &[&str] = &[
    "schema",
    "version",
    "completion",
    "kubectl",
    "docker-env",
    "node docker-env",
    "bundle build",
    "bundle list",
    "bundle show",
    "bundle verify",
    "bundle clean",
    "bundle remove",
    "bundle export",
    "bundle import",
];

#[test]
fn no_command_is_forgotten() {
    let known: BTreeSet<_> = CASES.iter().map(|case| case.command).chain(ELSEWHERE.iter().copied()).collect();
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
