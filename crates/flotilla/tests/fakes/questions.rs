//! What a command asks of drivers and nodes: each question once.

use super::coverage::{CASES, Case, Kind, ensure, for_all, prepared};

/// How the fakes log that the machines of a cluster are listed.
const LIST: &str = "find";

/// How often the machines of the cluster are listed, where that is not once, and why.
const LISTS: &[(&str, usize, &str)] = &[
    ("diff -f HOME/same.yaml", 0, "it compares two specs"),
    ("export", 0, "it prints the spec"),
    ("get clusters", 0, "it prints names"),
    ("ip", 0, "addresses are allocated, not observed"),
    ("node ip m02", 0, "addresses are allocated, not observed"),
    ("bundle list", 0, "it is about no cluster"),
    ("bundle show v1.36.4", 0, "it is about no cluster"),
    ("bundle verify v1.36.4", 0, "it is about no cluster"),
    ("bundle build --kubernetes-version v1.36.4", 0, "it is about no cluster"),
    ("bundle clean", 0, "it is about no cluster"),
    ("bundle export v1.36.4 HOME/new.bundle", 0, "it is about no cluster"),
    ("bundle import HOME/old.bundle", 0, "it is about no cluster"),
    ("schema", 0, "it is about no cluster"),
    ("version", 0, "it is about no cluster"),
    ("completion bash", 0, "it is about no cluster"),
    (
        "node update m02 --labels a=b --memory 3g --yes",
        3,
        "to check, after a person was asked, and after the node was powered off",
    ),
    ("etcd snapshot restore HOME/old.snap --yes", 2, "to check, and after a person was asked"),
];

fn lists(case: &Case) -> usize {
    LISTS.iter().find(|(line, ..)| *line == case.line).map_or(1, |(_, times, _)| *times)
}

#[test]
fn machines_are_listed_once() {
    for_all(CASES.iter(), |case| {
        let world = prepared(case);
        world.run(case.line);
        let calls = world.host.calls.take();
        let times = calls.iter().filter(|call| *call == LIST).count();
        ensure(times == lists(case), format!("`{}` lists machines {times} times: {calls:?}", case.line))
    });
}

/// A command that reads has read all it needs; one that changes compares under the lock what it has read before.
#[test]
fn the_state_of_a_cluster_is_read_once_and_compared_once() {
    for_all(CASES.iter().filter(|case| !case.before.is_empty()), |case| {
        let world = prepared(case);
        let reads = world.state_reads(case.line);
        let most = if case.kind == Kind::Reads { 1 } else { 2 };
        ensure(reads <= most, format!("`{}` reads the state {reads} times", case.line))
    });
}
