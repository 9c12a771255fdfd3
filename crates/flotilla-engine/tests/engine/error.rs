//! What a failure means for a script, and what it tells a person.

use std::io;
use std::time::Duration;

use flotilla_engine::port::{BootstrapError, DriverError, ExecError, Finding, Severity};
use flotilla_engine::{Code, EngineError, Explain};
use flotilla_linux::filelock::{Holder, LockError};
use flotilla_spec::error::SpecError;

fn io_error(kind: io::ErrorKind) -> EngineError {
    EngineError::Io { action: "write", path: "/a/file".into(), source: kind.into() }
}

fn finding(code: &'static str, exit_status: u8, text: &str) -> Finding {
    let (text, cure) = (text.to_owned(), format!("cure for {code}"));
    Finding { code, exit_status, severity: Severity::Fatal, text, cure }
}

fn failed() -> ExecError {
    let tail = vec!["going".to_owned(), "gone".to_owned()];
    ExecError::Failed {
        node: "demo".into(),
        argv: "kubeadm init".into(),
        status: "exit status: 1".into(),
        tail,
    }
}

fn timed_out() -> EngineError {
    let (what, seen) = ("the first answer".to_owned(), vec!["connection refused".to_owned()]);
    EngineError::Bootstrap(BootstrapError::TimedOut { what, limit: Duration::from_secs(5), seen })
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

/// Everything but interruptions.
fn failures() -> Vec<EngineError> {
    let demo = || "demo".parse().unwrap();
    let mut all: Vec<_> = spec_errors().into_iter().map(|error| EngineError::Spec(vec![error])).collect();
    let code = Code { name: "IF_NETWORK", exit_status: 70 };
    let hints = vec!["look".to_owned()];
    all.extend([
        EngineError::Spec(spec_errors()),
        EngineError::Host(vec![finding("HOST_NO_OVERLAY", 36, "no overlay"), finding("HOST_B", 35, "no b")]),
        EngineError::Host(Vec::new()),
        EngineError::NotRoot { cure: "use sudo".into() },
        EngineError::NoCluster("flotilla".parse().unwrap()),
        EngineError::NoCluster(demo()),
        EngineError::NoNode { cluster: demo(), node: "m02".into() },
        EngineError::NotRunning("demo".parse().unwrap()),
        EngineError::Different { cluster: demo(), what: "subnet".into() },
        EngineError::Busy { cluster: demo(), holder: None },
        EngineError::Busy {
            cluster: demo(),
            holder: Some(Holder { pid: 7, what: "flotilla start".into(), since: "10:00:00 UTC".into() }),
        },
        io_error(io::ErrorKind::NotFound),
        io_error(io::ErrorKind::StorageFull),
        io_error(io::ErrorKind::PermissionDenied),
        EngineError::Damaged { cluster: demo(), source: "cut off".into() },
        LockError::Open { path: "/a/lock".into(), source: io::ErrorKind::NotFound.into() }.into(),
        DriverError::Failed { what: "cannot make the network".into(), code, hints, source: None }.into(),
        DriverError::Exec(failed()).into(),
        BootstrapError::Node { action: "initialise", node: "demo".into(), source: failed() }.into(),
        BootstrapError::Api { action: "list the nodes".into(), source: "refused".into() }.into(),
        timed_out(),
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
    insta::assert_snapshot!(lines.join("\n"), @"");
}

#[test]
fn what_can_be_done_about_it_is_hinted() {
    let lines = failures().into_iter().flat_map(|error| {
        let name = error.code().name;
        error.hints().into_iter().map(move |hint| format!("{name}: {hint}"))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"");
}

#[test]
fn what_belongs_to_a_failure_is_told_line_by_line() {
    let lines = failures().into_iter().flat_map(|error| {
        let name = error.code().name;
        error.details().into_iter().map(move |line| format!("{name}: {line}"))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"");
}

#[test]
fn an_interruption_is_one_wherever_it_came_from() {
    let node = || "demo".to_owned();
    let interruptions: [EngineError; 5] = [
        EngineError::Interrupted,
        LockError::Cancelled { path: "/a/lock".into() }.into(),
        BootstrapError::Interrupted.into(),
        BootstrapError::Node { action: "look", node: node(), source: ExecError::Interrupted }.into(),
        DriverError::Exec(ExecError::Interrupted).into(),
    ];
    for error in interruptions {
        assert_eq!(error.code(), Code { name: "INTERRUPTED", exit_status: 130 }, "{error:?}");
        assert_eq!(error.hints().len(), 1, "{error:?}");
    }
    assert!(failures().iter().all(|error| error.code().name != "INTERRUPTED"));
}
