//! What the tests share: the real bundle, homes of their own beside it, and clusters.

mod announce;
mod cluster;
mod kill;
mod namespaces;
mod record;
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use announce::{announced_start, start as announce_start};
pub(crate) use cluster::{Cluster, PATIENCE, feed, wait_until};
pub(crate) use kill::{At, kill_at};
pub(crate) use namespaces::Namespaces;
pub(crate) use record::all as clusters;
pub(crate) use terminal::{Terminal, answer};

/// The Kubernetes version that everything is tried with: the default one.
pub(crate) const VERSION: &str = "v1.37.1";

/// How the names of links begin with which a test plays a neighbour of the host.
pub(crate) const LAN: &str = "flan";

/// The program under test, with a state directory.
#[expect(
    clippy::disallowed_methods,
    reason = "a test kills and watches the program, which the host command cannot"
)]
pub(crate) fn flotilla(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.args(args).env("FLOTILLA_HOME", home).stdin(Stdio::null());
    command
}

/// The same command in the network and with the mounts of a process. Its input is empty unless set.
#[expect(clippy::disallowed_methods, reason = "as above")]
pub(crate) fn entering(process: u32, command: &Command) -> Command {
    let mut entering = Command::new("nsenter");
    entering.args(["-t", &process.to_string(), "-n", "-m", "--"]).arg(command.get_program());
    entering.args(command.get_args()).stdin(Stdio::null());
    entering.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    entering
}

/// Runs it to its end.
pub(crate) fn run(home: &Path, args: &[&str]) -> Output {
    flotilla(home, args).output().unwrap()
}

/// Runs it and expects that it goes well. Gives what it printed.
pub(crate) fn succeed(home: &Path, args: &[&str]) -> String {
    let output = run(home, args);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "flotilla {args:?}: {stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// The user's state directory, where the real bundle is.
#[expect(clippy::disallowed_methods, reason = "tests find the bundle where the program does")]
pub(crate) fn real_home() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("FLOTILLA_HOME").unwrap_or_else(|| set("HOME").unwrap().join(".flotilla"))
}

/// The real bundle's directory; built once if it does not exist.
pub(crate) fn bundle() -> &'static Path {
    static BUNDLE: OnceLock<PathBuf> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let built = flotilla(&real_home(), &["bundle", "build", "--source", "build"]).status().unwrap();
        assert!(built.success(), "no bundle to test with");
        let (status, last) = build(&real_home()).finish();
        assert_eq!(status, 0, "{last}");
        PathBuf::from(last["data"]["path"].as_str().unwrap())
    })
}

/// An older version that the cluster's supports, for nodes that lag behind.
pub(crate) const OLDER: &str = "v1.36.4";

/// The digest of the bundle of that version; built if it does not exist.
pub(crate) fn older_digest() -> String {
    // With what the other one has cached.
    bundle();
    succeed(&real_home(), &["bundle", "build", "--source", "build", "--kubernetes-version", OLDER]);
    let shown = succeed(&real_home(), &["bundle", "show", OLDER, "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["digest"].as_str().unwrap().to_owned()
}

pub(crate) fn digest() -> &'static str {
    bundle().file_name().unwrap().to_str().unwrap()
}

/// A state directory for one test, on the file system of the real one so that hard links work. Removed afterwards.
pub(crate) fn home() -> TempDir {
    fs::create_dir_all(real_home()).unwrap();
    tempfile::Builder::new().prefix("test-").tempdir_in(real_home()).unwrap()
}

/// A home that has all parts of the real bundle but not the bundle, and shares Go's caches.
pub(crate) fn home_with_parts() -> TempDir {
    bundle();
    let home = home();
    fs::create_dir(home.path().join("cache")).unwrap();
    link_tree(&real_home().join("cache/parts"), &home.path().join("cache/parts"));
    std::os::unix::fs::symlink(real_home().join("cache/go"), home.path().join("cache/go")).unwrap();
    home
}

/// The directories of the parts that the real bundle was made from.
pub(crate) fn parts() -> Vec<PathBuf> {
    let shown = succeed(&real_home(), &["bundle", "show", digest(), "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let components = shown["components"].as_array().unwrap();
    let is_of = |name: &str, component: &Value| {
        let part = [&component["name"], &component["version"]].map(|text| text.as_str().unwrap());
        name.starts_with(&format!("{}-{}-", part[0], part[1]))
    };
    let all = fs::read_dir(real_home().join("cache/parts")).unwrap().flatten();
    all.filter(|item| components.iter().any(|of| is_of(&item.file_name().to_string_lossy(), of)))
        .map(|item| item.path())
        .collect()
}

/// A home that has the real bundle.
pub(crate) fn home_with_bundle() -> TempDir {
    let home = home();
    let bundles = home.path().join("bundles");
    fs::create_dir(&bundles).unwrap();
    link_tree(bundle(), &bundles.join(digest()));
    home
}

/// A copy made of hard links.
#[expect(clippy::disallowed_methods, reason = "cp knows how")]
pub(crate) fn link_tree(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-al").arg(from).arg(to).status().unwrap().success());
}

/// Changes a file without changing what it is a hard link of.
pub(crate) fn replace(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mode = fs::metadata(path).unwrap().permissions();
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, mode).unwrap();
}

/// Begins to build the bundle.
pub(crate) fn build(home: &Path) -> Running {
    Running::start(&mut flotilla(home, &["bundle", "build", "--source", "build"]))
}

/// The same for somebody with this umask.
#[expect(clippy::disallowed_methods, reason = "as above")]
pub(crate) fn build_with_umask(home: &Path, umask: &str) -> Running {
    let mut command = Command::new("sh");
    let line = format!("umask {umask}; exec \"$0\" bundle build --source build \"$@\"");
    command
        .args(["-c", &line, env!("CARGO_BIN_EXE_flotilla")])
        .env("FLOTILLA_HOME", home)
        .stdin(Stdio::null());
    Running::start(&mut command)
}

/// A command that is under way, with its events.
pub(crate) struct Running {
    child: Child,
    events: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.args(["-o", "json"]).stdout(Stdio::piped()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, events }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the event; false if the command ended before.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> bool {
        self.events
            .by_ref()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .any(|event| wanted(&event))
    }

    pub(crate) fn wait_for_step(&mut self, step: &str) -> bool {
        self.wait_for(|event| event["type"] == "io.k8s.sigs.minikube.step" && event["data"]["name"] == step)
    }

    pub(crate) fn wait_for_end_of_step(&mut self, step: &str) -> bool {
        self.wait_for(|event| event["type"] == "dev.flotilla.step.done" && event["data"]["name"] == step)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Does something while the command stands still.
    pub(crate) fn paused(&self, act: impl FnOnce()) {
        self.signal(Signal::STOP);
        act();
        self.signal(Signal::CONT);
    }

    /// SIGKILL, as the machine's out-of-memory killer would. False if it had ended by itself.
    pub(crate) fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap().signal().is_some()
    }

    /// The same. Gives the last event, too.
    pub(crate) fn kill_and_read(mut self) -> (bool, Value) {
        self.child.kill().unwrap();
        let (status, last) = self.finish();
        (status > 128, last)
    }

    /// Reads to the end. Gives the exit status, 128 + N if signal N ended it, and the last event.
    pub(crate) fn finish(mut self) -> (i32, Value) {
        let last = self.events.by_ref().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).last();
        let status = self.child.wait().unwrap();
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        (status, last.unwrap_or_default())
    }
}

impl Drop for Running {
    /// A test that failed leaves nothing behind that holds a lock, not even a process that stands still.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Names in the home's `bundles/`, hidden ones too.
pub(crate) fn bundle_store(home: &Path) -> Vec<String> {
    let items = fs::read_dir(home.join("bundles")).into_iter().flatten().flatten();
    items.map(|item| item.file_name().to_string_lossy().into_owned()).collect()
}

/// What a build in this home could leave on the host: mounts, and temporary directories.
pub(crate) fn traces(home: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let is_below = |line: &&str| line.contains(home.to_str().unwrap());
    let mut traces: Vec<String> = mounts.lines().filter(is_below).map(str::to_owned).collect();
    let temporary = fs::read_dir("/tmp").unwrap().flatten();
    let temporary = temporary.map(|item| item.file_name().to_string_lossy().into_owned());
    traces.extend(temporary.filter(|name| name.starts_with("flotilla-") && !is_of_tests(name)));
    traces
}

/// Whether a temporary directory is of a test or a benchmark, others of which may run beside this one.
pub(crate) fn is_of_tests(name: &str) -> bool {
    ["flotilla-e2e-", "flotilla-test-", "flotilla-bench-"].iter().any(|prefix| name.starts_with(prefix))
}
