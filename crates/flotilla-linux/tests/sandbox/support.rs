//! What the cases share: a sandbox on the host's own files, and looks at the host afterwards.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flotilla_core::Exit;
use flotilla_linux::cgroup::Layout;
use flotilla_linux::host::{Command, CommandError};
use flotilla_linux::sandbox::{self, Spec};
use tempfile::TempDir;

/// The first argument that makes this binary run a sandbox and print its lines: a caller that can be killed.
pub(crate) const HELPER_SANDBOX: &str = "helper-sandbox";

/// The first argument that makes this binary run a plain program and print its lines.
pub(crate) const HELPER_PROGRAM: &str = "helper-program";

/// The variable that all processes of a fixture inherit its marker in.
pub(crate) const MARKER: &str = "FLOTILLA_TEST_MARKER";

/// A sandbox that is yet to start. Its traces on the host differ from those of all others.
pub(crate) struct Fixture {
    pub(crate) spec: Spec,
    /// Is in the command line or the environment of every process of it.
    pub(crate) marker: String,
    scratch: TempDir,
}

impl Fixture {
    /// A shell on the host's own root, which is only read.
    pub(crate) fn new(script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let marker = format!("fl-sandbox-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let scratch = tempfile::Builder::new().prefix(&marker).tempdir().unwrap();
        let spec = Spec {
            root: "/".into(),
            scratch: scratch.path().to_owned(),
            binds: Vec::new(),
            hostname: "box".into(),
            cgroup: None,
            argv: ["sh", "-c", script, &marker].map(str::to_owned).to_vec(),
            env: vec![(MARKER.to_owned(), marker.clone())],
        };
        Self { spec, marker, scratch }
    }

    /// Lets it run in a control group of its own.
    pub(crate) fn with_cgroup(mut self) -> Self {
        self.spec.cgroup = Some(format!("flotilla/{}", self.marker));
        self
    }

    pub(crate) fn run(&self) -> Result<String, CommandError> {
        sandbox::command(&self.spec).run().map(|output| output.text())
    }

    /// The exit status, or none if it could not be had.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        match sandbox::command(&self.spec).run() {
            Ok(_) => Some(0),
            Err(CommandError::Failed { exit: Exit::Code(code), .. }) => Some(code.into()),
            Err(CommandError::Failed { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Its directories in the host's control groups.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        groups_of(&format!("flotilla/{}", self.marker))
    }

    /// Process numbers of everything that has its marker.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let shows_it = |pid: i32| {
            let shown = ["cmdline", "environ"].map(|file| words_of(pid, file));
            shown.iter().any(|words| words.contains(&self.marker))
        };
        processes().filter(|pid| shows_it(*pid)).collect()
    }

    /// Fails unless the host shows nothing of it, a moment from now at the latest.
    pub(crate) fn assert_no_traces(&self) {
        wait_until("its processes are gone", || self.processes().is_empty());
        wait_until("its control groups are gone", || self.groups().is_empty());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(&self.marker), "{mounts}");
        assert_eq!(fs::read_dir(self.scratch.path()).unwrap().count(), 0);
    }
}

/// The directories of a group that exist.
pub(crate) fn groups_of(name: &str) -> Vec<PathBuf> {
    let roots: Vec<PathBuf> = match Layout::of_host().unwrap() {
        Layout::None => Vec::new(),
        Layout::V1 { hierarchies, .. } => hierarchies.into_iter().map(|one| one.mount_point).collect(),
        Layout::V2 { mount_point, .. } => vec![mount_point],
    };
    roots.into_iter().map(|root| root.join(name)).filter(|path| path.exists()).collect()
}

/// Freezes a group, in the hierarchy that can do it.
pub(crate) fn freeze(group: &Path) {
    for (file, frozen) in [("freezer.state", "FROZEN"), ("cgroup.freeze", "1")] {
        if group.join(file).exists() {
            fs::write(group.join(file), frozen).unwrap();
        }
    }
}

/// Numbers of all processes but this one.
pub(crate) fn processes() -> impl Iterator<Item = i32> {
    let ours = i32::try_from(std::process::id()).unwrap();
    let numbers = fs::read_dir("/proc").unwrap();
    numbers.filter_map(move |entry| {
        entry.ok()?.file_name().to_str()?.parse::<i32>().ok().filter(|pid| *pid != ours)
    })
}

/// The words of `/proc/PID/cmdline` or the like; none if the process is gone.
pub(crate) fn words_of(pid: i32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// This binary, as the caller of a sandbox. Prints its own process number first.
pub(crate) fn helper(fixture: &Fixture) -> Command {
    Command::new("/proc/self/exe").arg(HELPER_SANDBOX).arg(serde_json::to_string(&fixture.spec).unwrap())
}

pub(crate) fn run_if_helper(args: &[OsString]) -> Option<ExitCode> {
    let command = match args.get(1)?.to_str()? {
        HELPER_SANDBOX => {
            let spec: Spec = serde_json::from_str(args.get(2)?.to_str()?).ok()?;
            sandbox::command(&spec)
        }
        HELPER_PROGRAM => Command::new(args.get(2)?).args(&args[3..]),
        _ => return None,
    };
    say(&std::process::id().to_string());
    let ended = command.stream(|line| say(&line.text));
    Some(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout();
    drop(writeln!(stdout, "{line}").and_then(|()| stdout.flush()));
}

/// Polls for a condition, and fails if it does not become true.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_mins(2), "not in time: {what}");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "looks at the host from outside, which sends no events")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

pub(crate) fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
