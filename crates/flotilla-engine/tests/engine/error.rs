//! What a failure means for a script, and what it tells a user.

use std::io;
use std::time::Duration;

use flotilla_core::{BootstrapError, DriverError, Finding, GuestError, Severity};
use flotilla_core::{Code, Explain};
use flotilla_engine::EngineError;
use flotilla_files::{Holder, LockError};
use flotilla_spec::error::SpecError;

fn io_error(kind: io::ErrorKind) -> EngineError {
    EngineError::Io { action: "write", path: "/a/file".into(), source: kind.into() }
}

fn finding(code: &'static str, exit_status: u8, text: &str) -> Finding {
    let (text, cure) = (text.to_owned(), format!("cure for {code}"));
    Finding { code, exit_status, severity: Severity::Fatal, text, cure }
}

fn failed() -> GuestError {
    let tail = vec!["going".to_owned(), "gone".to_owned()];
    GuestError::Failed {
        node: "demo".into(),
        argv: "kubeadm init".into(),
        exit: flotilla_core::Exit::Code(1),
        tail,
    }
}

fn timed_out() -> EngineError {
    let (what, seen) = ("the first answer".to_owned(), vec!["connection refused".to_owned()]);
    EngineError::Bootstrap(BootstrapError::TimedOut {
        what,
        limit: Duration::from_secs(5),
        flag: Some("--wait-timeout"),
        seen,
    })
}

fn spec_errors() -> Vec<SpecError> {
    let node = || "demo".parse().unwrap();
    vec![
        SpecError::Size { given: "big".into() },
        SpecError::MemoryOverHost { node: node(), wanted: 2 << 30, host: 1 << 30 },
        SpecError::Cores { node: node(), wanted: 9, host: 2 },
        SpecError::DiskTooSmall { node: node(), wanted: 1 << 30, least: 2 << 30 },
        SpecError::NoControlPlane,
    ]
}

fn majority(up: usize, total: usize) -> EngineError {
    let (cluster, nodes) = ("demo".parse().unwrap(), "demo-m02".into());
    EngineError::QuorumLoss { cluster, up, total, doing: "stopping", nodes, left: up - 1 }
}

/// Everything but interruptions.
fn failures() -> Vec<EngineError> {
    let demo = || "demo".parse().unwrap();
    let mut all: Vec<_> = spec_errors().into_iter().map(|error| EngineError::Spec(vec![error])).collect();
    let code = Code { name: "IF_NETWORK", exit_status: 70 };
    let hints = vec!["look".to_owned()];
    all.extend([
        EngineError::Spec(spec_errors()),
        EngineError::Host(vec![finding("HOST_NO_OVERLAY", 36, "no overlay"), finding("HOST_B", 35, "no b")]),
        EngineError::NotRoot { cure: "use sudo".into() },
        EngineError::NoCluster { name: "flotilla".parse().unwrap(), others: Vec::new() },
        EngineError::NoCluster { name: demo(), others: Vec::new() },
        EngineError::NoCluster { name: "dmo".parse().unwrap(), others: vec!["big".parse().unwrap(), demo()] },
        EngineError::DeletedMeanwhile { name: demo() },
        EngineError::NoNode { cluster: demo(), node: "m02".into(), nodes: vec!["demo".parse().unwrap()] },
        EngineError::NotRunning { cluster: demo(), node: "demo-m02".parse().unwrap() },
        EngineError::Stopped(demo()),
        EngineError::NoQuorum { cluster: demo(), down: vec!["demo".parse().unwrap()] },
        EngineError::Paused { cluster: demo(), force: None },
        EngineError::ApiSilent { cluster: demo(), force: Some("--force does it") },
        EngineError::LastControlPlane { cluster: demo(), going: 1 },
        majority(2, 3),
        majority(1, 1),
        EngineError::QuorumUnknown { cluster: demo() },
        EngineError::Different { cluster: demo(), what: "subnet".into(), change: None },
        EngineError::OtherCount {
            cluster: demo(),
            what: "node",
            has: 1,
            wanted: 3,
            change: "`flotilla node add` adds some",
        },
        EngineError::Busy { cluster: demo(), holder: None },
        EngineError::Busy {
            cluster: demo(),
            holder: Some(Holder { pid: 7, what: "flotilla start".into(), since: "10:00:00 UTC".into() }),
        },
        io_error(io::ErrorKind::NotFound),
        io_error(io::ErrorKind::StorageFull),
        io_error(io::ErrorKind::PermissionDenied),
        EngineError::Damaged {
            cluster: demo(),
            path: "/home/clusters/demo/state.json".into(),
            backup: None,
            source: "cut off".into(),
        },
        EngineError::Newer {
            cluster: demo(),
            path: "/home/clusters/demo/state.json".into(),
            version: 3,
            newest: 2,
        },
        EngineError::RangesUnknown { cluster: demo() },
        LockError::Open { path: "/a/lock".into(), source: io::ErrorKind::NotFound.into() }.into(),
        DriverError::Failed { what: "cannot create the network".into(), code, hints, source: None }.into(),
        DriverError::Guest(failed()).into(),
        BootstrapError::Node { action: "initialise", node: "demo".into(), source: failed() }.into(),
        BootstrapError::Api { action: "list the nodes".into(), source: "refused".into() }.into(),
        timed_out(),
        BootstrapError::Undrained {
            node: "demo".into(),
            limit: Duration::from_secs(5),
            seen: vec!["web stays".into()],
        }
        .into(),
        BootstrapError::Crashing { node: "demo".into(), seen: vec!["panic: no such gate".into()] }.into(),
        BootstrapError::PodNetwork { source: failed() }.into(),
        EngineError::Kubeconfig { source: "not YAML".into() },
    ]);
    all
}

#[test]
fn every_failure_has_a_code_a_status_and_a_text() {
    let line = |error: &EngineError| {
        let Code { name, exit_status } = error.code();
        format!("{exit_status} {name}: {error}")
    };
    let lines: Vec<_> = failures().iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    14 MK_USAGE: "big" is not a size
    23 RSRC_INSUFFICIENT_REQ_MEMORY: node demo has 2 GiB of memory, more than the host's 1 GiB
    29 RSRC_INSUFFICIENT_CORES: node demo has 9 CPUs, more than the host's 2
    26 RSRC_INSUFFICIENT_STORAGE: node demo has a disk of 1 GiB, but needs 2 GiB
    18 MK_CONFIG: the cluster has no control plane
    14 MK_USAGE: 5 errors in the request
    36 HOST_NO_OVERLAY: host check failed: no overlay
    37 HOST_PERMISSION: you are not root
    85 GUEST_NO_CLUSTER: cluster flotilla does not exist
    85 GUEST_NO_CLUSTER: cluster demo does not exist
    85 GUEST_NO_CLUSTER: cluster dmo does not exist
    85 GUEST_NO_CLUSTER: cluster demo was deleted meanwhile
    85 GUEST_NODE_NOT_FOUND: cluster demo has no node m02
    83 GUEST_NOT_RUNNING: node demo-m02 is not running
    83 GUEST_NOT_RUNNING: cluster demo is stopped
    83 GUEST_NOT_RUNNING: etcd of cluster demo has no quorum while demo is off
    89 GUEST_PAUSED: cluster demo is paused
    89 GUEST_API_SILENT: the API of cluster demo does not answer
    81 GUEST_LAST_CONTROL_PLANE: cannot delete the last control plane of cluster demo
    81 GUEST_QUORUM: stopping demo-m02 would lose quorum: 1 of 3 members left
    81 GUEST_QUORUM: stopping demo-m02 would lose quorum: 0 of 1 members left
    81 GUEST_QUORUM: etcd does not answer: the number of its healthy members is unknown
    11 MK_CONFLICT: cluster demo already exists with another subnet
    11 MK_CONFLICT: cluster demo has 1 node, not 3
    11 CLUSTER_BUSY: another command is changing cluster demo
    11 CLUSTER_BUSY: another command is changing cluster demo: process 7, `flotilla start`, since 10:00:00 UTC
    30 HOST_IO: cannot write /a/file
    26 RSRC_DISK_FULL: cannot write /a/file
    37 HOST_PERMISSION: cannot write /a/file
    38 HOST_STATE_DAMAGED: cannot read the state of cluster demo: /home/clusters/demo/state.json is damaged
    38 HOST_STATE_NEWER: /home/clusters/demo/state.json was written by a newer flotilla: schema version 3 is not supported, the newest supported one is 2
    38 HOST_STATE_DAMAGED: the address ranges of cluster demo are unknown: its state cannot be read
    30 HOST_IO: cannot open the lock file /a/lock
    70 IF_NETWORK: cannot create the network
    80 GUEST_EXEC: `kubeadm init` failed in node demo with exit status 1
    80 GUEST_START: cannot initialise on node demo
    80 GUEST_START: cannot list the nodes
    82 GUEST_START_TIMEOUT: timed out after 5 s waiting for the first answer
    82 GUEST_NODE_DRAIN: timed out after 5 s draining node demo
    80 GUEST_START: the kubelet on node demo keeps crashing
    80 GUEST_START: cannot install the pod network
    38 HOST_KUBECONFIG: cannot change the kubeconfig
    "#);
}

#[test]
fn what_can_be_done_about_it_is_hinted() {
    let lines = failures().into_iter().flat_map(|error| {
        let name = error.code().name;
        error.hints().into_iter().map(move |hint| format!("{name}: {hint}"))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    MK_USAGE: write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
    RSRC_INSUFFICIENT_REQ_MEMORY: use --memory max, or at most 16 times the host's memory: 16Gi
    RSRC_INSUFFICIENT_CORES: use --cpus max, or at most 2
    RSRC_INSUFFICIENT_STORAGE: use --disk-size 2Gi or more
    HOST_PERMISSION: use sudo
    GUEST_NO_CLUSTER: create it with `flotilla start`
    GUEST_NO_CLUSTER: create it with `flotilla start -p demo`
    GUEST_NO_CLUSTER: did you mean demo? existing clusters: big, demo; choose one with -p
    GUEST_NO_CLUSTER: create a new one with `flotilla start -p demo`
    GUEST_NODE_NOT_FOUND: existing nodes: demo
    GUEST_NOT_RUNNING: start it with `flotilla node start demo-m02 -p demo`
    GUEST_NOT_RUNNING: start it with `flotilla start -p demo`
    GUEST_NOT_RUNNING: start control planes that are down with `flotilla start -p demo`
    GUEST_PAUSED: unpause it first with `flotilla unpause -p demo`
    GUEST_API_SILENT: see why with `flotilla status -p demo`; repair it with `flotilla start -p demo`
    GUEST_API_SILENT: --force does it
    GUEST_LAST_CONTROL_PLANE: `flotilla delete -p demo` deletes the cluster
    GUEST_QUORUM: start control planes that are down with `flotilla start -p demo`
    GUEST_QUORUM: --force does it anyway; without quorum the API does not answer
    GUEST_QUORUM: --force does it anyway; without quorum the API does not answer
    GUEST_QUORUM: start control planes that are down with `flotilla start -p demo`
    GUEST_QUORUM: --force does it anyway; without quorum the API does not answer
    MK_CONFLICT: delete it first with `flotilla delete -p demo`, or choose another name with -p
    MK_CONFLICT: `flotilla node add -p demo` adds some
    CLUSTER_BUSY: without --no-wait-lock this command waits for the other one
    CLUSTER_BUSY: without --no-wait-lock this command waits for the other one
    HOST_STATE_DAMAGED: running nodes keep running, and the nodes' data is still in /home/clusters/demo/nodes
    HOST_STATE_DAMAGED: repair /home/clusters/demo/state.json by hand, or restore it from a backup
    HOST_STATE_NEWER: upgrade flotilla; cluster demo was not changed
    HOST_STATE_DAMAGED: repair cluster demo (see `flotilla status -p demo`), or choose ranges that it does not use with --subnet and --pod-subnet
    IF_NETWORK: look
    GUEST_START: see why with `flotilla logs --node demo`; run the command again to retry
    GUEST_START: see why with `flotilla logs`; run the command again to retry
    GUEST_START_TIMEOUT: see why with `flotilla logs`; run the command again to resume
    GUEST_START_TIMEOUT: on a slow machine wait longer with --wait-timeout
    GUEST_NODE_DRAIN: wait longer with --drain-timeout, or continue without them with --force
    GUEST_START: its version may not support its settings or feature gates: delete it and create it again with others
    GUEST_START: the cluster keeps the manifest that it was created with: delete the cluster and create it again with another manifest
    HOST_KUBECONFIG: repair the file, or set KUBECONFIG to another one; `flotilla kubectl` works without it
    ");
}

#[test]
fn what_belongs_to_a_failure_is_told_line_by_line() {
    let lines = failures().into_iter().flat_map(|error| {
        let name = error.code().name;
        error.details().into_iter().map(move |line| format!("{name}: {line}"))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    MK_USAGE: "big" is not a size; write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
    MK_USAGE: node demo has 2 GiB of memory, more than the host's 1 GiB; use --memory max, or at most 16 times the host's memory: 16Gi
    MK_USAGE: node demo has 9 CPUs, more than the host's 2; use --cpus max, or at most 2
    MK_USAGE: node demo has a disk of 1 GiB, but needs 2 GiB; use --disk-size 2Gi or more
    MK_USAGE: the cluster has no control plane
    HOST_NO_OVERLAY: no overlay; cure for HOST_NO_OVERLAY
    HOST_NO_OVERLAY: no b; cure for HOST_B
    GUEST_EXEC: going
    GUEST_EXEC: gone
    GUEST_START: going
    GUEST_START: gone
    GUEST_START_TIMEOUT: connection refused
    GUEST_NODE_DRAIN: web stays
    GUEST_START: panic: no such gate
    GUEST_START: going
    GUEST_START: gone
    "#);
}

#[test]
fn an_interruption_is_one_wherever_it_came_from() {
    let node = || "demo".to_owned();
    let interruptions: [EngineError; 5] = [
        EngineError::Interrupted,
        LockError::Cancelled { path: "/a/lock".into() }.into(),
        BootstrapError::Interrupted.into(),
        BootstrapError::Node { action: "look", node: node(), source: GuestError::Interrupted }.into(),
        DriverError::Guest(GuestError::Interrupted).into(),
    ];
    for error in interruptions {
        assert_eq!(error.code(), Code { name: "INTERRUPTED", exit_status: 130 }, "{error:?}");
        assert_eq!(error.hints().len(), 1, "{error:?}");
    }
    assert!(failures().iter().all(|error| error.code().name != "INTERRUPTED"));
}

#[test]
fn a_node_that_does_not_answer_is_named_with_what_to_type() {
    let limit = Duration::from_secs(10);
    let frozen = || GuestError::Frozen { node: "demo-m02".into(), what: "`true`".into() };
    let stuck = || GuestError::TimedOut { node: "demo-m02".into(), what: "`true`".into(), limit };
    let in_bootstrap = |source| BootstrapError::Node { action: "look", node: "demo-m02".into(), source };
    let all: [EngineError; 4] = [
        DriverError::Guest(frozen()).into(),
        in_bootstrap(frozen()).into(),
        DriverError::Guest(stuck()).into(),
        in_bootstrap(stuck()).into(),
    ];
    let reported = all.map(|error| {
        let Code { name, exit_status } = error.code();
        format!("{exit_status} {name}: {error}\n  {}", error.hints().join("; "))
    });
    insta::assert_snapshot!(reported.join("\n"), @"
    89 GUEST_FROZEN: node demo-m02 is frozen: did not try `true`
      unfreeze it with `flotilla start`, or stop it with `flotilla node stop demo-m02`
    89 GUEST_FROZEN: cannot look on node demo-m02
      unfreeze it with `flotilla start`, or stop it with `flotilla node stop demo-m02`
    82 GUEST_TIMEOUT: node demo-m02 does not answer: `true` took longer than 10 s
      see why with `flotilla logs --node demo-m02`, or restart it with `flotilla node stop demo-m02` and `flotilla node start demo-m02`
    82 GUEST_TIMEOUT: cannot look on node demo-m02
      see why with `flotilla logs --node demo-m02`, or restart it with `flotilla node stop demo-m02` and `flotilla node start demo-m02`
    ");
}

#[test]
fn a_hint_names_the_flag_of_the_limit_that_was_hit_and_no_other() {
    let (what, limit, seen) = (|| "a wait".to_owned(), Duration::from_secs(5), Vec::new);
    let hints = |error: BootstrapError| EngineError::Bootstrap(error).hints().join("\n");
    let of = |flag| hints(BootstrapError::TimedOut { what: what(), limit, flag, seen: seen() });
    assert!(of(Some("--wait-timeout")).contains("wait longer with --wait-timeout"));
    assert!(!of(None).contains("--wait"));
    let stalled = BootstrapError::Stalled { what: what(), node: "demo".into(), limit, seen: seen() };
    assert_eq!(hints(stalled), "see why with `flotilla logs --node demo`; run the command again to resume");
}
