//! The scripts that the README names, with stand-ins for the programs that they call.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// What the scripts may use of this machine.
const REAL: [&str; 14] = [
    "bash", "cat", "cut", "date", "dirname", "env", "grep", "head", "kill", "mkdir", "sed", "sort", "tail",
    "tr",
];
/// Programs that only note that they were called.
const NOTED: [&str; 3] = ["chown", "shellcheck", "timeout"];

/// A machine on which every program is known.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// A user who is not root, on Debian, with all packages and good compilers.
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().expect("a folder") };
        for folder in ["bin", "target"] {
            fs::create_dir(machine.path(folder)).expect("a file of the machine");
        }
        for name in REAL {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let real = real.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no {name}"));
            symlink(real, machine.path("bin").join(name)).expect("a file of the machine");
        }
        for name in NOTED {
            machine.program(name, "");
        }
        machine.program("id", "echo 1000");
        machine.program("sleep", "exit 1");
        machine.program("apt-get", "");
        machine.program("dpkg-query", "echo install ok installed");
        machine
            .program("rustc", "case $1 in -vV) echo 'host: my-machine';; *) echo 'rustc 1.95.0 (x)';; esac");
        machine.program("go", "echo go1.26.8");
        let binary = machine.path("target/my-machine/release/flotilla");
        fs::create_dir_all(binary.parent().expect("a folder")).expect("a file of the machine");
        machine.write(&binary, "echo \"flotilla $*\" >> \"$LOG\"");
        let metadata = format!(r#"{{"target_directory":"{}"}}"#, machine.path("target").display());
        machine.program("cargo", &format!("case $1 in metadata) echo '{metadata}';; esac"));
        // Runs what it is asked to, behind its own options.
        let sudo = "while :; do case $1 in --) shift; break;; -*) shift;; *) break;; esac; done; exec \"$@\"";
        machine.program(
            "sudo",
            &format!("case $1 in -v) exit 0;; -n) exit \"${{NO_PASSWORD:-1}}\";; esac; {sudo}"),
        );
        machine.program("true", "");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a program there, which notes each call.
    fn program(&self, name: &str, script: &str) {
        self.write(&self.path("bin").join(name), &format!("echo \"{name} $*\" >> \"$LOG\"\n{script}"));
    }

    fn write(&self, path: &Path, script: &str) {
        fs::write(path, format!("#!{}/bash\n{script}\n", self.path("bin").display()))
            .expect("a file of the machine");
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("a file of the machine");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path("bin").join(name)).expect("a file of the machine");
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the product's wrapper is for nodes and hosts, not for tasks"
    )]
    fn run(&self, script: &str, args: &[&str]) -> Output {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
        let mut command = Command::new(self.path("bin/bash"));
        command.arg(scripts.join(script)).args(args).env_clear();
        let log = ("LOG", self.path("log"));
        command
            .env("PATH", self.path("bin"))
            .env("HOME", self.path(""))
            .env(log.0, log.1)
            .output()
            .expect("bash runs")
    }

    /// The programs that were called, one a line.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn place(&self, start: &str) -> usize {
        let log = self.log();
        log.iter()
            .position(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("no {start} in {log:#?}"))
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn try_asks_for_the_password_first_and_runs_the_cluster_by_one_sudo() {
    let machine = Machine::new();
    let output = machine.run("try", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(machine.place("sudo -v") < machine.place("cargo build --release --locked"));
    assert!(machine.place("cargo build") < machine.place("flotilla start --yes --nodes 3"));
    machine.place("flotilla kubectl -- get nodes -o wide");
    let log = machine.log();
    let with_settings = log.iter().filter(|line| line.starts_with("sudo --preserve-env=")).count();
    assert_eq!(with_settings, 1, "{log:#?}");
}

#[test]
fn who_needs_no_password_is_not_asked() {
    let machine = Machine::new();
    machine.program(
        "sudo",
        "case $1 in -v) exit 1;; -n) exit 0;; esac; while [ \"$1\" != -- ]; do shift; done; shift; \"$@\"",
    );
    let output = machine.run("try", &["--nodes", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    machine.place("flotilla start --yes --nodes 1");
    assert!(!machine.log().contains(&"sudo -v".to_owned()));
}

#[test]
fn root_needs_no_sudo() {
    let machine = Machine::new();
    machine.remove("sudo");
    machine.program("id", "echo 0");
    let output = machine.run("try", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    machine.place("flotilla start --yes --nodes 3");
}

#[test]
fn without_sudo_a_person_is_told_before_anything_is_compiled() {
    let machine = Machine::new();
    machine.remove("sudo");
    let output = machine.run("try", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no sudo"), "{}", stderr(&output));
    assert!(!machine.log().iter().any(|line| line.starts_with("cargo")));
}

#[test]
fn the_variables_that_sudo_keeps_are_those_of_the_hint() {
    let machine = Machine::new();
    machine.run("as-root", &["true"]);
    let line = machine.log().into_iter().find(|line| line.starts_with("sudo ")).unwrap();
    assert_eq!(line, format!("{} -- true", flotilla_core::explain::AS_ROOT));
}

#[test]
fn missing_packages_are_installed() {
    let machine = Machine::new();
    machine
        .program("dpkg-query", "case \"$*\" in *shellcheck*) exit 1;; *) echo install ok installed;; esac");
    let output = machine.run("install-deps", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "installing shellcheck\n");
    assert!(
        machine.log().iter().any(|line| line.starts_with("apt-get install") && line.ends_with(" shellcheck"))
    );
}

#[test]
fn old_and_missing_compilers_are_told_with_their_versions() {
    for (program, script, expected) in [
        ("rustc", "echo 'rustc 1.85.1 (x)'", "Rust 1.85.1 is too old: install 1.95"),
        ("rustc", "exit 1", "there is no Rust in the PATH: install 1.95"),
        ("go", "echo go1.24.3", "Go 1.24.3 is too old: install 1.26"),
        ("go", "exit 127", "there is no Go in the PATH: install 1.26"),
    ] {
        let machine = Machine::new();
        machine.program(program, script);
        let output = machine.run("install-deps", &[]);
        assert_eq!(output.status.code(), Some(1), "{program} {script}");
        assert!(stderr(&output).starts_with(expected), "{}", stderr(&output));
    }
    for version in ["go1.27rc1", "go1.26.99", "devel go1.28-0123456789"] {
        let machine = Machine::new();
        machine.program("go", &format!("echo {version}"));
        let output = machine.run("install-deps", &[]);
        assert!(output.status.success(), "{version}: {}", stderr(&output));
    }
}

#[test]
fn a_distribution_without_apt_is_told_what_that_means() {
    let machine = Machine::new();
    machine.remove("apt-get");
    let output = machine.run("install-deps", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no apt here"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("command not found"), "{}", stderr(&output));
    // Who only works on the code needs no bundle.
    assert!(machine.run("install-deps", &["develop"]).status.success());
}

/// A `timeout` that limits nothing.
const TIMEOUT: &str = "while [ \"${1#--}\" != \"$1\" ]; do shift; done; shift; exec \"$@\"";

#[test]
fn fast_tests_need_neither_root_nor_sudo() {
    let machine = Machine::new();
    machine.remove("sudo");
    machine.program("timeout", TIMEOUT);
    let output = machine.run("test", &["fast"]);
    assert!(output.status.success(), "{}", stderr(&output));
    machine.place("cargo test --locked --workspace");
    machine.place("shellcheck");
}

#[test]
fn all_tests_are_compiled_by_the_person_and_run_by_root() {
    let machine = Machine::new();
    let metadata = format!(r#"{{"target_directory":"{}"}}"#, machine.path("target").display());
    machine.program(
        "cargo",
        &format!(
            "case $1 in metadata) echo '{metadata}';; \
             test) echo \"runner ${{CARGO_TARGET_MY_MACHINE_RUNNER##*/}}\" >> \"$LOG\";; esac"
        ),
    );
    let debug = machine.path("target/my-machine/debug");
    fs::create_dir_all(&debug).unwrap();
    machine.write(&debug.join("flotilla"), "echo \"flotilla $*\" >> \"$LOG\"");
    machine.program("timeout", TIMEOUT);
    let output = machine.run("test", &["full"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(machine.place("sudo -v") < machine.place("cargo fmt"));
    let log = machine.log();
    let tests = log.iter().filter(|line| line.starts_with("cargo test")).count();
    assert_eq!(log.iter().filter(|line| *line == "runner as-root").count(), tests, "{log:#?}");
    assert!(tests >= 3, "{log:#?}");
    assert!(!log.iter().any(|line| line.starts_with("sudo") && line.contains(" cargo")), "{log:#?}");
    // The second bundle is compiled with what the first one has cached, and leaves nothing of it.
    let first = machine.place("flotilla bundle build --source build --keep-cache");
    assert!(first < machine.place("flotilla bundle build --source build --kubernetes-version v1.36.4"));
    machine.place("chown --recursive");
}
