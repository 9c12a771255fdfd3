//! A host of fakes with a state directory, on which the program runs.

use std::ffi::OsString;
use std::fmt;

use flotilla::{Console, Settings, Wiring};
use flotilla_core::Driver;
use flotilla_engine::store::ClusterStore;
use flotilla_spec::HostSize;
use flotilla_testkit::fake::{FakeHost, When, until_killed};
use serde_json::Value;
use tempfile::TempDir;

pub(super) struct World {
    pub(super) host: FakeHost,
    pub(super) is_root: bool,
    home: TempDir,
}

/// What a command left on the streams.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) status: u8,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}\n{}{}", self.status, self.stdout, self.stderr)
    }
}

impl Ran {
    /// The code of the error that it ended with.
    pub(super) fn code(&self) -> &str {
        let code = self.stderr.split_once("error[").and_then(|(_, rest)| rest.split_once(']'));
        code.map_or("", |(code, _)| code)
    }
}

impl World {
    /// A host without clusters.
    pub(super) fn new() -> Self {
        Self { host: FakeHost::default(), is_root: true, home: tempfile::tempdir().unwrap() }
    }

    /// One on which these commands have succeeded. Nothing is logged yet.
    pub(super) fn after(lines: &[&str]) -> Self {
        let world = Self::new();
        for line in lines {
            let ran = world.run(line);
            assert_eq!(ran.status, 0, "`{line}`: {ran}");
        }
        world.host.calls.take();
        world
    }

    pub(super) fn run(&self, line: &str) -> Ran {
        self.run_answering(line, [])
    }

    /// Runs a command before which a person sits who gives these answers. `HOME` in the line is the world's directory.
    pub(super) fn run_answering(&self, line: &str, answers: impl IntoIterator<Item = bool>) -> Ran {
        let line = line.replace("HOME", self.home.path().to_str().unwrap());
        let words = std::iter::once("flotilla").chain(line.split_whitespace());
        let arguments: Vec<OsString> = words.map(OsString::from).collect();
        let console = Console::in_memory(answers);
        let status = flotilla::run(&arguments, self.settings(), &console, |settings| Ok(self.wire(settings)));
        let written = console.captured();
        let shown = |text: String| text.replace(self.home.path().to_str().unwrap(), "HOME");
        Ran { status, stdout: shown(written.stdout), stderr: shown(written.stderr) }
    }

    /// Runs a command that is killed in its nth call.
    pub(super) fn run_killed(&self, line: &str, nth: usize, when: When) -> Option<Ran> {
        self.host.calls.kill_nth(nth, when);
        until_killed(|| self.run(line))
    }

    /// Loses these machines of the default cluster for good, with their disks.
    pub(super) fn lose(&self, nodes: &[&str]) {
        let cluster = "flotilla".parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for node in nodes {
            let node = node.parse().unwrap();
            runtime.block_on(self.host.driver.remove(&cluster, &node)).unwrap();
            self.host.bootstrapper.set_up(&cluster, &node, false);
        }
        self.host.calls.take();
    }

    /// Writes a file in the world's directory.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    /// Everything a person can find out about all clusters, and what etcd knows of itself.
    pub(super) fn found(&self) -> String {
        let mut found = vec![self.run("list -o json").to_string()];
        for name in ClusterStore::new(&self.settings().home).names().unwrap() {
            let of = |command: &str| self.run(&format!("{command} -p {name}")).to_string();
            found.extend(["export", "status -o json", "node list -o json"].map(of));
            let mut members = self.host.bootstrapper.member_names(&name);
            members.sort();
            found.push(format!("{members:?}"));
        }
        found.push(format!("{:?}", self.host.kubeconfig.current()));
        self.host.calls.take();
        found.join("\n")
    }

    fn settings(&self) -> Settings {
        Settings {
            home: self.home.path().join("state"),
            progress: false,
            user_home: self.home.path().join("user"),
            kubeconfig: None,
            owner: None,
            term: None,
        }
    }

    fn wire(&self, settings: &Settings) -> Wiring {
        Wiring {
            hosts: self.host.hosts.clone(),
            bootstrapper: self.host.bootstrapper.clone(),
            bundles: self.host.bundles.clone(),
            kubeconfig: self.host.kubeconfig.clone(),
            store: ClusterStore::new(&settings.home),
            cancel: self.host.cancel.clone(),
            host: HostSize { cpus: 8, memory: 32 << 30 },
            is_root: self.is_root,
            cancels_on_signals: false,
        }
    }
}

/// What a command wrote to standard output: one JSON value, or one a line. None if it is anything else.
pub(super) fn json_lines(ran: &Ran) -> Option<Vec<Value>> {
    match serde_json::from_str(&ran.stdout) {
        Ok(value) => Some(vec![value]),
        Err(_) => ran.stdout.lines().map(|line| serde_json::from_str(line).ok()).collect(),
    }
}
