//! A host of fakes with a state directory, on which the program runs.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;

use flotilla::{Console, Replacement, Settings, Wiring};
use flotilla_core::{Driver, MachineId};
use flotilla_engine::store::ClusterStore;
use flotilla_spec::HostSize;
use flotilla_testkit::fake::{FakeHost, When, until_killed};
use rustix::fs::inotify;
use serde_json::Value;
use tempfile::TempDir;

pub(super) struct World {
    pub(super) host: FakeHost,
    pub(super) is_root: bool,
    /// Whether there is a `MINIKUBE_HOME`: the directory `tools`.
    has_tools: bool,
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
        Self {
            host: FakeHost::default(),
            is_root: true,
            has_tools: false,
            home: flotilla_testkit::directory(),
        }
    }

    /// A host with tools for minikube.
    pub(super) fn with_tools() -> Self {
        Self { has_tools: true, ..Self::new() }
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

    /// Runs a command of the program under another name.
    pub(super) fn run_as(&self, program: &str, line: &str) -> Ran {
        self.run_words(std::iter::once(program).chain(line.split_whitespace()), &Console::in_memory([]))
    }

    /// Runs a command before which a person sits who gives these answers.
    pub(super) fn run_answering(&self, line: &str, answers: impl IntoIterator<Item = bool>) -> Ran {
        self.run_on(line, &Console::in_memory(answers))
    }

    /// Runs a command with this on its standard input.
    pub(super) fn run_with_input(&self, line: &str, input: &[u8]) -> Ran {
        self.run_on(line, &Console::in_memory([]).with_input(input))
    }

    /// `HOME` in the line is the world's directory.
    fn run_on(&self, line: &str, console: &Console) -> Ran {
        let line = line.replace("HOME", self.home.path().to_str().unwrap());
        self.run_words(std::iter::once("flotilla").chain(line.split_whitespace()), console)
    }

    fn run_words<'a>(&self, words: impl Iterator<Item = &'a str>, console: &Console) -> Ran {
        let arguments: Vec<OsString> = words.map(OsString::from).collect();
        let status = flotilla::run(&arguments, self.settings(), console, |settings| Ok(self.wire(settings)));
        let written = console.captured();
        let shown = |text: String| text.replace(self.home.path().to_str().unwrap(), "HOME");
        Ran { status, stdout: shown(written.stdout), stderr: shown(written.stderr) }
    }

    /// Runs a command that is killed in its nth call.
    pub(super) fn run_killed(&self, line: &str, nth: usize, when: When) -> Option<Ran> {
        self.host.calls.kill_nth(nth, when);
        until_killed(|| self.run(line))
    }

    /// How often a command opens the state of the default cluster, as the kernel sees it.
    pub(super) fn state_reads(&self, line: &str) -> usize {
        let folder = ClusterStore::new(&self.settings().home).folder(&"flotilla".parse().unwrap());
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, &folder, inotify::WatchFlags::OPEN).unwrap();
        self.run(line);
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        let names = std::iter::from_fn(|| {
            let event = events.next().ok()?;
            Some(event.file_name().map(ToOwned::to_owned))
        });
        names.flatten().filter(|name| name.as_c_str() == c"state.json").count()
    }

    /// Loses these machines of the default cluster for good, with their disks.
    pub(super) fn lose(&self, nodes: &[&str]) {
        let cluster = "flotilla".parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for node in nodes {
            let node = node.parse().unwrap();
            runtime.block_on(self.host.driver.remove(&MachineId::new(&cluster, &node))).unwrap();
            self.host.bootstrapper.set_up(&cluster, &node, false);
        }
        self.host.calls.take();
    }

    /// Writes a file in the world's directory.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    /// What a file in the world's directory has, if it exists.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.home.path().join(name)).ok()
    }

    /// Makes a link to another file in the world's directory.
    pub(super) fn link(&self, name: &str, to: &str) {
        std::os::unix::fs::symlink(self.home.path().join(to), self.home.path().join(name)).unwrap();
    }

    pub(super) fn make_directory(&self, name: &str) {
        std::fs::create_dir_all(self.home.path().join(name)).unwrap();
    }

    /// What is in a directory of the world's.
    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.home.path().join(directory)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Everything a person can find out about all clusters and bundles, and what etcd knows of itself.
    pub(super) fn found(&self) -> String {
        let mut found =
            ["list -o json", "bundle list -o json"].map(|line| self.run(line).to_string()).to_vec();
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
            minikube_home: self.has_tools.then(|| self.home.path().join("tools")),
            user: Some("tester".to_owned()),
            term: Some("xterm".to_owned()),
            program: "/usr/bin/flotilla".into(),
        }
    }

    fn wire(&self, settings: &Settings) -> Wiring {
        self.host.bundles.set_root(self.is_root);
        let calls = self.host.calls.clone();
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
            replace_us: Arc::new(move |Replacement { program, args, env }| {
                let shown = |(name, value): &(&str, PathBuf)| format!("{name}={}", value.display());
                let words = env.iter().map(shown).chain([program.display().to_string()]);
                let args = args.iter().map(|arg| arg.to_string_lossy().into_owned());
                let line = words.chain(args).collect::<Vec<_>>().join(" ");
                calls.note(line).map_err(io::Error::other)
            }),
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
