//! A node for a test: PID 1 in a new namespace, scripts for its programs, a temporary directory for its root.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use flotilla_node::{Config, Graces};
use flotilla_node_api::{ServiceSpec, Unit};
use flotilla_testkit::write_program;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::roles;

/// Nothing in a case takes that long unless it never comes, also on a host that does much else.
const PATIENCE: Duration = Duration::from_mins(1);

/// Graces that no case waits for by accident, however busy the host is. A case that waits for one shortens it.
const GRACES: Graces =
    Graces { stop: 30_000, address: 30_000, service: 30_000, pods: 30_000, system: 30_000 };

/// How long a case waits for whoever does not end.
pub(crate) const SHORT: u64 = 200;

/// A kubelet that reports how it was started, and that it got SIGTERM.
const KUBELET: &str = "trap 'echo kubelet ends >> $ROOT/events; exit 0' TERM
sleep 60 & echo \"kubelet up $*\" >> $ROOT/events
wait";

/// A keepalived that gives up the address on SIGTERM, and ends much later.
const KEEPALIVED: &str = "trap 'echo address given up >> $ROOT/events' TERM
sleep 60 & echo \"keepalived up $*\" >> $ROOT/events
wait; sleep 0.5; echo keepalived ends >> $ROOT/events";

/// A node in the making.
pub(crate) struct Node {
    pub(crate) config: Config,
    dir: TempDir,
}

/// A node that runs; killed on drop.
pub(crate) struct Running {
    dir: TempDir,
    /// The `unshare` that is PID 1's parent.
    parent: Child,
    pub(crate) init: Pid,
}

impl Node {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let root = dir.path().to_owned();
        let env = [("ROOT".to_owned(), root.to_str().unwrap().to_owned())].into();
        let config = Config { root, nft: at("bin/nft"), env, graces: GRACES, ..Config::default() };
        let mut node = Self { config, dir };
        for spec in ServiceSpec::of_every_node() {
            node.add_service(spec);
        }
        let this = std::env::current_exe().unwrap();
        node.script("containerd", &format!("exec {} {} $ROOT", this.display(), roles::CONTAINERD));
        node.script("kubelet", KUBELET);
        node.script("keepalived", KEEPALIVED);
        node
    }

    /// Adds a service, whose program is looked for where [`Self::script`] puts it.
    pub(crate) fn add_service(&mut self, mut spec: ServiceSpec) {
        spec.argv[0] = self.program(&spec.name).into_os_string().into_string().unwrap();
        self.config.services.push(spec);
    }

    pub(crate) fn program(&self, unit: &Unit) -> PathBuf {
        self.dir.path().join(format!("bin/{unit}"))
    }

    /// Puts a shell script where one of the node's programs is looked for.
    pub(crate) fn script(&self, name: &str, text: &str) {
        let directory = self.dir.path().join("bin");
        fs::create_dir_all(&directory).unwrap();
        write_program(&directory.join(name), &format!("#!/bin/sh\n{text}\n"));
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.dir, path, text);
    }

    /// Lets what kubeadm writes for the kubelet be there from the start.
    pub(crate) fn with_kubelet_files(self) -> Self {
        self.write("etc/kubernetes/kubelet.conf", "");
        self.write("var/lib/kubelet/config.yaml", "");
        self
    }

    /// Starts it without waiting for anything.
    pub(crate) fn spawn(self) -> Running {
        let json = serde_json::to_string(&self.config).unwrap();
        // Whatever happens to us, nothing stays: the kernel kills `unshare` with us, PID 1 with `unshare`, and
        // everybody in the namespace with PID 1.
        let mut command = command("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(std::env::current_exe().unwrap()).args([roles::INIT, &json]).stdin(Stdio::null());
        let console = fs::File::create(self.dir.path().join("console")).unwrap();
        let parent = command.stdout(console.try_clone().unwrap()).stderr(console).spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", parent.id());
        let mut init = None;
        wait_until("PID 1 runs", || {
            let pids = fs::read_to_string(&children).unwrap_or_default();
            init = pids.trim().parse().ok().and_then(Pid::from_raw);
            init.is_some()
        });
        Running { dir: self.dir, parent, init: init.unwrap() }
    }

    /// Starts it and waits until it says that it is ready.
    pub(crate) fn start(self) -> Running {
        let node = self.spawn();
        node.wait_for("ready");
        node
    }
}

impl Running {
    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.dir, path, text);
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// What the programs and PID 1 have reported, in order.
    pub(crate) fn events(&self) -> Vec<String> {
        self.read("events").lines().map(str::to_owned).collect()
    }

    /// How many events begin so.
    pub(crate) fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|line| line.starts_with(event)).count()
    }

    pub(crate) fn wait_for(&self, event: &str) {
        wait_until(event, || self.count(event) > 0);
    }

    /// Waits until so many `sleep`s run. Before its exec one would lose a SIGTERM to the handler of its shell.
    pub(crate) fn wait_for_sleepers(&self, count: usize) {
        let is_sleeper = |process: &Process| process.command.starts_with("sleep ");
        wait_until("the sleepers run", || self.processes().into_iter().filter(is_sleeper).count() == count);
    }

    /// Runs `systemctl` and gives what it prints and its exit status.
    pub(crate) fn systemctl(&self, line: &str) -> (String, i32) {
        let mut command = command(std::env::current_exe().unwrap().to_str().unwrap());
        let output =
            command.arg(roles::SYSTEMCTL).arg(self.dir.path()).args(line.split(' ')).output().unwrap();
        let Output { status, stdout, .. } = output;
        (String::from_utf8(stdout).unwrap().trim_end().to_owned(), status.code().unwrap())
    }

    /// Runs `flotilla-init` with something on its standard input, and gives what it prints, what it says on its standard error
    /// and whether it succeeded.
    pub(crate) fn flotilla_init(&self, line: &str, input: &str) -> (String, String, bool) {
        let path = self.dir.path().join("input");
        fs::write(&path, input).unwrap();
        let mut command = command(std::env::current_exe().unwrap().to_str().unwrap());
        command.arg(roles::PROGRAM).arg(self.dir.path()).args(line.split(' '));
        let Output { status, stdout, stderr } =
            command.stdin(fs::File::open(path).unwrap()).output().unwrap();
        let [out, err] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        (out, err, status.success())
    }

    /// The processes of the node.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let ours = namespace(self.init.as_raw_nonzero().get());
        let entries = fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| ours.is_some() && namespace(*pid) == ours).filter_map(Process::read).collect()
    }

    /// The process whose command line contains `what`. Not PID 1: the whole configuration is in its own.
    pub(crate) fn process(&self, what: &str) -> Pid {
        let mut others = self.processes().into_iter().filter(|process| process.pid != self.init);
        let found = others.find(|process| process.command.contains(what));
        found.unwrap_or_else(|| panic!("no {what}: {:?}", self.processes())).pid
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.init, signal).unwrap();
    }

    /// Tells the node to go down and gives how it ended.
    pub(crate) fn go_down(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// What PID 1 has written down.
    pub(crate) fn journal(&self) -> String {
        self.read("var/log/flotilla/init.log")
    }

    /// Waits for the end of PID 1, whose exit status `unshare` passes on.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("PID 1 has ended", || {
            status = self.parent.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("console:\n{}events:\n{}", self.read("console"), self.read("events"));
        }
        drop(self.parent.kill().and_then(|()| self.parent.wait()));
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    /// Its number on the host.
    pub(crate) pid: Pid,
    pub(crate) command: String,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some(Self { pid: Pid::from_raw(pid)?, command })
    }
}

/// Polls for a condition, and fails if it does not become true.
#[expect(clippy::disallowed_methods, reason = "looks at the node from outside, which sends no events")]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[expect(clippy::disallowed_methods, reason = "the node runs beside the case, and dies with it by pdeathsig")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn write(dir: &TempDir, path: &str, text: &str) {
    let path = dir.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
