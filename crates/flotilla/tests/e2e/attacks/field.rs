//! Where attacks are tried: a worker of a cluster, a privileged pod on it, and the host beside them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

use flotilla_linux::host::Command;
use tempfile::TempDir;

use super::{Isolation, Tried};
use crate::faults::said;
use crate::lab::{self, Cluster};
use crate::nodes::fleet;

/// The system calls of attacks, as a program.
const SOURCE: &str = include_str!("attack.c");
/// Where it is in the node and in the pod.
const DIRECTORY: &str = "/var/attack";
const LIMITS: [&str; 2] = ["--memory", "2g"];

/// Exit statuses of attacks.
const WORKS: i32 = 0;
const STOPPED: i32 = 1;
const IMPOSSIBLE: i32 = 2;

pub(super) struct Field<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) worker: String,
    /// A directory of the host that no node has any business with.
    pub(super) host: TempDir,
    program: PathBuf,
}

fn pod(worker: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: attacker}}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: {worker}
  containers:
  - name: attacker
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, 'httpd -p 8080 -h /etc; exec sleep 1000000']
    securityContext: {{privileged: true}}
    volumeMounts: [{{name: attack, mountPath: {DIRECTORY}}}]
  volumes: [{{name: attack, hostPath: {{path: {DIRECTORY}}}}}]
"
    )
}

impl<'a> Field<'a> {
    /// Starts the cluster, and brings the program to where it is used.
    pub(super) fn start(cluster: &'a Cluster, isolation: Isolation) -> Self {
        let host = tempfile::Builder::new().prefix("flotilla-e2e-").tempdir().unwrap();
        let (source, program) = (host.path().join("attack.c"), host.path().join("attack"));
        fs::write(&source, SOURCE).unwrap();
        Command::new("gcc").args(["-static", "-O1", "-o"]).arg(&program).arg(&source).run().unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

        let isolation = match isolation {
            Isolation::None => "none",
            Isolation::User => "user",
        };
        cluster.start(&[&["--nodes", "2", "--isolation", isolation][..], &LIMITS].concat());
        let worker = fleet::worker(cluster, 2);
        let field = Self { cluster, worker, host, program };
        fleet::ssh(cluster, &field.worker, &format!("mkdir -p {DIRECTORY}"));
        let target = format!("{}:{DIRECTORY}/attack", field.worker);
        cluster.succeed(&["cp", field.program.to_str().unwrap(), &target]);
        fleet::load_image(cluster, &field.worker);
        cluster.apply(&pod(&field.worker));
        cluster.wait_for("condition=Ready", &["pod", "attacker"]);
        field
    }

    /// A line for a shell of root in the node.
    pub(super) fn in_node(&self, line: &str) -> Tried {
        let line = with_path(line);
        outcome(&self.cluster.run(&["ssh", "-n", &self.worker, "--", &line]))
    }

    /// A line for a shell in the privileged pod.
    pub(super) fn in_pod(&self, line: &str) -> Tried {
        let line = with_path(line);
        let args = ["kubectl", "--", "exec", "attacker", "--", "sh", "-c", &line];
        outcome(&self.cluster.run(&args))
    }

    /// The same line in both; it works if it does in one.
    pub(super) fn in_both(&self, line: &str) -> Tried {
        match (self.in_node(line), self.in_pod(line)) {
            (Tried::Works(what), _) => Tried::Works(format!("in the node: {what}")),
            (_, Tried::Works(what)) => Tried::Works(format!("in the pod: {what}")),
            (Tried::Stopped(why), _) | (_, Tried::Stopped(why)) => Tried::Stopped(why),
            (impossible, _) => impossible,
        }
    }

    /// A system call in both, after a trial on the host itself: what does not work there says nothing.
    pub(super) fn call(&self, args: &str) -> Tried {
        let on_host = self.on_host(args);
        if !matches!(on_host, Tried::Works(_)) {
            return Tried::Impossible(format!("not on the host either: {on_host:?}"));
        }
        match self.in_both(&format!("attack {args}")) {
            Tried::Impossible(why) => Tried::Stopped(why),
            tried => tried,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the exit status is the answer")]
    pub(super) fn on_host(&self, args: &str) -> Tried {
        let mut command = std::process::Command::new(&self.program);
        outcome(&command.args(args.split(' ')).current_dir(self.host.path()).output().unwrap())
    }

    /// What a line prints in the node, which must succeed.
    pub(super) fn ssh(&self, line: &str) -> String {
        fleet::ssh(self.cluster, &self.worker, &with_path(line))
    }

    /// Where our own program is in the node: its `systemctl` is a link to it.
    pub(super) fn init(&self) -> String {
        self.ssh("readlink /usr/local/bin/systemctl")
    }

    /// The worker's directory on the host.
    pub(super) fn disk(&self) -> PathBuf {
        self.cluster.state().join("nodes").join(&self.worker)
    }
}

/// In a directory where device files are device files, which they are not in `/tmp`.
fn with_path(line: &str) -> String {
    format!("export PATH=$PATH:{DIRECTORY}; cd {DIRECTORY} || exit 3; {line}")
}

/// What an attack has to say. An exit status of another kind is a mistake in the attack.
fn outcome(output: &Output) -> Tried {
    let text = said(output).lines().skip(1).collect::<Vec<_>>().join("; ");
    match output.status.code() {
        Some(WORKS) => Tried::Works(text),
        Some(STOPPED) => Tried::Stopped(text),
        Some(IMPOSSIBLE) => Tried::Impossible(text),
        _ => panic!("the attack could not be tried: {}", said(output)),
    }
}

/// The device and the number of a file, as the kernel knows it everywhere.
pub(super) fn identity(path: &Path) -> (u64, u64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.dev(), metadata.ino())
}

/// What is reached is of the host, or not.
pub(super) fn reached(is_reached: bool, what: impl Into<String>) -> Tried {
    if is_reached { Tried::Works(what.into()) } else { Tried::Stopped(what.into()) }
}

/// The program that attacks aim at, in a copy: the tests' own is not at risk.
pub(super) fn copy_of_flotilla(to: &Path) -> PathBuf {
    let copy = to.join("flotilla");
    fs::copy(lab::flotilla(Path::new("/"), &[]).get_program(), &copy).unwrap();
    copy
}
