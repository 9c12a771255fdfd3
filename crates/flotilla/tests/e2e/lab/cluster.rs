//! Real clusters, each gone when its test is over.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::announce;
use super::record::Record;

/// How long anything may take that a cluster does by itself, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// A cluster of a test: its name, its state directory, and its own kubeconfig.
///
/// Making one starts nothing; it only takes away what a killed test may have left under that name. Dropped, it is
/// deleted, after its last log lines were printed if the test failed. `FLOTILLA_KEEP=always` or `failure` keeps it and
/// says how to remove it.
///
/// ```no_run
/// let cluster = Cluster::new(lab::real_home(), "tu-demo");
/// cluster.start(&["--cpus", "1"]);
/// assert!(cluster.kubectl(&["get", "nodes"]).contains("Ready"));
/// ```
pub(crate) struct Cluster {
    pub(crate) name: String,
    home: PathBuf,
    /// Holds the kubeconfig, which is not there before the first start.
    directory: TempDir,
    /// The process whose network and mounts it takes for the host's, if they are not ours.
    host: Option<u32>,
}

impl Cluster {
    /// For most tests the home is [`super::real_home`], where the bundle is.
    pub(crate) fn new(home: impl Into<PathBuf>, name: &str) -> Self {
        Self::on(None, home, name)
    }

    /// One whose host has the network and the mounts of this process.
    pub(crate) fn with_host_of(process: u32, home: impl Into<PathBuf>, name: &str) -> Self {
        Self::on(Some(process), home, name)
    }

    fn on(host: Option<u32>, home: impl Into<PathBuf>, name: &str) -> Self {
        super::bundle();
        let directory = tempfile::Builder::new().prefix("flotilla-e2e-").tempdir().unwrap();
        let cluster = Self { name: name.to_owned(), home: home.into(), directory, host };
        Record::write(name, &cluster.home, &cluster.kubeconfig());
        cluster.succeed(&["delete"]);
        cluster
    }

    /// `flotilla` with this cluster, state directory and kubeconfig, not yet run. Its input is empty unless set.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = super::flotilla(&self.home, &["-p", &self.name]);
        command.args(args).args(isolation(args)).env("KUBECONFIG", self.kubeconfig());
        match self.host {
            None => command,
            Some(process) => super::entering(process, &command),
        }
    }

    /// Runs `flotilla` to its end, however it ends.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs it and expects that it goes well. Gives what it printed.
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        text_of(args, &self.run(args)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts, or starts again. Gives what it printed on standard output.
    pub(crate) fn start(&self, args: &[&str]) -> String {
        let begun = Instant::now();
        let said = self.succeed(&[&["start"], args].concat());
        announce::start(&self.name, args, begun.elapsed());
        said
    }

    /// The cluster's kubectl, which must succeed.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.try_kubectl(args).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_kubectl(&self, args: &[&str]) -> Result<String, String> {
        let args = [&["kubectl", "--"], args].concat();
        text_of(&args, &self.run(&args))
    }

    /// `kubectl get … -o json`
    pub(crate) fn get(&self, what: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[&["get", "-o", "json"], what].concat())).unwrap()
    }

    /// `kubectl get … -o jsonpath=…`
    pub(crate) fn field(&self, what: &[&str], path: &str) -> String {
        let path = format!("jsonpath={path}");
        self.kubectl(&[&["get", "-o", &path], what].concat())
    }

    pub(crate) fn apply(&self, yaml: &str) {
        self.try_apply(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    }

    pub(crate) fn try_apply(&self, yaml: &str) -> Result<String, String> {
        let args = ["kubectl", "--", "apply", "-f", "-"];
        text_of(&args, &feed(&mut self.command(&args), yaml.as_bytes()))
    }

    /// `kubectl wait --for=…`, with patience also for what is not there yet, and for an API that is silent for a moment.
    #[track_caller]
    pub(crate) fn wait_for(&self, condition: &str, what: &[&str]) {
        let condition = format!("--for={condition}");
        let args = [&["wait", &condition, "--timeout=30s"], what].concat();
        wait_until(&format!("{what:?} {condition}"), PATIENCE, || self.try_kubectl(&args));
    }

    /// A line for the node's shell, which must succeed. Gives what it printed, without the last line end.
    pub(crate) fn ssh(&self, line: &str) -> String {
        self.try_ssh(line).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_ssh(&self, line: &str) -> Result<String, String> {
        let args = ["ssh", "--", line];
        text_of(&args, &self.run(&args)).map(|text| text.trim_end_matches('\n').to_owned())
    }

    /// Loads an image from its OCI archive into the node.
    pub(crate) fn load_image(&self, archive: &[u8]) {
        let args = ["ssh", "--", "ctr -n k8s.io images import -"];
        text_of(&args, &feed(&mut self.command(&args), archive)).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The address of its node.
    pub(crate) fn ip(&self) -> String {
        self.succeed(&["ip"]).trim().to_owned()
    }

    /// Where its kubeconfig is.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Its part of the state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.home.join("clusters").join(&self.name)
    }
}

impl Cluster {
    /// Prints the last lines of the logs of every node. Never panics: that would hide a test's own failure.
    #[expect(clippy::print_stdout, reason = "the harness shows it with the failure")]
    pub(crate) fn print_logs(&self) {
        let listed = self.command(&["node", "list", "--format", "{{.Name}}"]).output();
        let nodes = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned());
        for node in nodes.unwrap_or_default().lines() {
            println!("==== the logs of {node}");
            let logs = self.command(&["node", "logs", node, "-n", "30"]).output();
            for stream in logs.iter().flat_map(|logs| [&logs.stdout, &logs.stderr]) {
                println!("{}", String::from_utf8_lossy(stream));
            }
        }
    }
}

impl Drop for Cluster {
    #[expect(clippy::print_stdout, reason = "the harness shows it with the failure")]
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            self.print_logs();
        }
        if keep(failed) && self.state().exists() {
            let (home, name) = (self.home.display(), &self.name);
            self.directory.disable_cleanup(true);
            let kubeconfig = self.kubeconfig();
            Record::remove(name, &self.home);
            println!(
                "==== kept {name}; remove it with: FLOTILLA_HOME={home} KUBECONFIG={} flotilla -p {name} delete",
                kubeconfig.display()
            );
            return;
        }
        // A panic here would hide the test's own.
        match self.command(&["delete"]).output() {
            Ok(output) if output.status.success() => Record::remove(&self.name, &self.home),
            other => println!("==== {} could not be deleted: {other:?}", self.name),
        }
    }
}

/// What is added to a `start`, so that all tests can be run with nodes of this isolation. A file says it itself.
#[expect(clippy::disallowed_methods, reason = "a setting for the tests, not for the program")]
fn isolation(args: &[&str]) -> Vec<String> {
    let is_start = args.first() == Some(&"start");
    let says_it = args.iter().any(|arg| ["-f", "--file", "--isolation"].contains(arg));
    let wanted = std::env::var("FLOTILLA_TEST_ISOLATION").ok().filter(|_| is_start && !says_it);
    wanted.map(|wanted| vec!["--isolation".to_owned(), wanted]).unwrap_or_default()
}

/// What the person wants of an environment whose test is over.
#[expect(clippy::disallowed_methods, reason = "a setting for the tests, not for the program")]
fn keep(failed: bool) -> bool {
    match std::env::var("FLOTILLA_KEEP").as_deref() {
        Ok("always") => true,
        Ok("failure") => failed,
        _ => false,
    }
}

/// Runs a program to its end with these bytes as its input.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // In a thread of its own: a program that answers while it reads would otherwise wait for us, and we for it.
    std::thread::scope(|scope| {
        // One that does not want all of it has said so by its exit status.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Between two questions. Most of them start programs, which take the processors from what is waited for.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until the question succeeds; reports the last error if it never does.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test has to poll")]
pub(crate) fn wait_until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) if begun.elapsed() > limit => {
                panic!("{what}: still not so after {} s: {error}", limit.as_secs())
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The standard output of a program that succeeded, and all output of one that failed.
fn text_of(args: &[&str], output: &Output) -> Result<String, String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("flotilla {args:?}: {}\n{stdout}{stderr}", output.status))
}
