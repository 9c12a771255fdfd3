//! The scripts that the README names, with stand-ins for the programs that they call.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flotilla_testkit::{Home, Seen, write_program};
use tempfile::TempDir;

/// What the scripts may use of this machine.
const REAL: [&str; 15] = [
    "bash", "cat", "cut", "date", "dirname", "env", "grep", "head", "kill", "mkdir", "sed", "sort", "stat",
    "tail", "tr",
];
/// Programs that only note that they were called.
const NOTED: [&str; 3] = ["chown", "flock", "install"];

/// A machine on which every program is known.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// A user who is not root, on Debian, with all packages and good compilers.
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().expect("a directory") };
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
        // The loop that keeps the password valid ends at once.
        machine.program("sleep", "[ \"$1\" != 30 ]");
        machine.program("apt-get", "");
        machine.program("dpkg-query", "echo install ok installed");
        machine
            .program("rustc", "case $1 in -vV) echo 'host: my-machine';; *) echo 'rustc 1.95.0 (x)';; esac");
        machine.program("go", "echo go1.26.8");
        for binary in ["release/flotilla", "debug/gate"] {
            let path = machine.path("target/my-machine").join(binary);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a file of the machine");
            let name = path.file_name().expect("a name").display();
            machine.write(&path, &format!("echo \"{name} $*\" >> \"$LOG\""));
        }
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
        write_program(path, &format!("#!{}/bash\n{script}\n", self.path("bin").display()));
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path("bin").join(name)).expect("a file of the machine");
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the product's wrapper is for nodes and hosts, not for tasks"
    )]
    fn command(&self, script: &str, args: &[&str]) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
        let mut command = Command::new(self.path("bin/bash"));
        command.arg(scripts.join(script)).args(args).env_clear();
        command.env("PATH", self.path("bin")).env("HOME", self.path("")).env("LOG", self.path("log"));
        command
    }

    fn run(&self, script: &str, args: &[&str]) -> Output {
        self.command(script, args).output().expect("bash runs")
    }

    /// Runs a script on a terminal on which this is typed.
    fn answer(&self, script: &str, typed: &str) -> Seen {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(script);
        Home::new(self.path("bin/bash").to_str().expect("a path in UTF-8"))
            .with_env("PATH", self.path("bin"))
            .with_env("LOG", self.path("log"))
            .answer_on_terminal(typed, [script.to_str().expect("a path in UTF-8")])
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
fn try_offers_to_install_flotilla_on_a_terminal_only() {
    let installs = |machine: &Machine| machine.log().iter().any(|line| line.starts_with("install "));
    for (typed, expected) in [("y\n", true), ("n\n", false), ("\n", false)] {
        let machine = Machine::new();
        let seen = machine.answer("try", typed);
        assert_eq!(seen.status(), 0, "{seen}");
        let asked = "Install flotilla as /usr/local/bin/flotilla? [y/N]";
        assert!(seen.screen.join("\n").contains(asked), "{seen}");
        assert_eq!(installs(&machine), expected, "{:#?}", machine.log());
    }
    let machine = Machine::new();
    assert!(machine.run("try", &[]).status.success());
    assert!(!installs(&machine), "nobody can be asked");
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
fn the_settings_of_tests_reach_those_that_run_as_root() {
    let machine = Machine::new();
    let settings = ["CARGO_TERM_COLOR", "RUST_BACKTRACE", "PROPTEST_RNG_SEED", "FLOTILLA_TEST_REQUIRE"];
    let output = machine.command("as-root", &["true"]).envs(settings.map(|name| (name, "1"))).output();
    assert!(output.expect("bash runs").status.success());
    let line = machine.log().into_iter().find(|line| line.starts_with("sudo ")).unwrap();
    let kept: Vec<_> = line.split(['=', ',', ' ']).collect();
    for name in settings {
        assert!(kept.contains(&name), "no {name} in {line}");
    }
}

#[test]
fn missing_packages_are_installed() {
    let machine = Machine::new();
    machine
        .program("dpkg-query", "case \"$*\" in *shellcheck*) exit 1;; *) echo install ok installed;; esac");
    for needed in [&[] as &[&str], &["run"]] {
        let output = machine.run("install-deps", needed);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "who tries Flotilla needs no package of its tests");
    }
    for needed in ["develop", "full"] {
        let output = machine.run("install-deps", &[needed]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "installing shellcheck\n");
    }
    let installed = |line: &&String| line.starts_with("apt-get install") && line.ends_with(" shellcheck");
    assert_eq!(machine.log().iter().filter(installed).count(), 2);
}

#[test]
fn a_mistyped_set_of_packages_is_a_usage_error() {
    let output = Machine::new().run("install-deps", &["all"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("scripts/install-deps [run] "), "{}", stderr(&output));
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
fn missing_tools_of_rust_are_told_to_whoever_develops() {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let machine = Machine::new();
        machine.program("cargo", &format!("case $1 in {tool}) exit 101;; esac"));
        let output = machine.run("install-deps", &["develop"]);
        assert_eq!(output.status.code(), Some(1), "{tool}");
        let told = format!("there is no cargo {tool}: install it with `rustup component add {component}`\n");
        assert_eq!(stderr(&output), told);
        // Who only tries Flotilla does not need it.
        assert!(machine.run("install-deps", &[]).status.success());
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

#[test]
fn fast_tests_need_neither_root_nor_sudo() {
    let machine = Machine::new();
    machine.remove("sudo");
    let output = machine.run("test", &["fast"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(machine.place("cargo build --quiet --locked --package gate") < machine.place("gate fast"));
}

#[test]
fn all_tests_are_compiled_by_the_person_who_gets_the_files_back() {
    let machine = Machine::new();
    let output = machine.run("test", &["full"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(machine.place("sudo -v") < machine.place("cargo build"));
    assert!(machine.place("gate full") < machine.place("chown --recursive"));
    let log = machine.log();
    assert!(!log.iter().any(|line| line.starts_with("sudo") && line.contains("gate")), "{log:#?}");
}

#[test]
fn a_registry_that_does_not_answer_is_named_after_three_tries() {
    let machine = Machine::new();
    machine.program("cargo", "[ \"$1\" != fetch ] || exit 101");
    let output = machine.run("test", &["fast"]);
    assert_eq!(output.status.code(), Some(1));
    let last = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(last, "ENVIRONMENT cargo fetch: registry did not answer (3 tries)\n");
    assert_eq!(machine.log().iter().filter(|line| line.starts_with("cargo fetch")).count(), 3);
}

#[test]
fn a_lock_file_that_does_not_match_is_a_failure_of_ours() {
    let machine = Machine::new();
    let stale = "cannot update the lock file /src/Cargo.lock because --locked was passed";
    machine.program(
        "cargo",
        &format!("case $1 in fetch | metadata) echo 'error: {stale}' >&2; exit 101;; esac"),
    );
    let output = machine.run("test", &["fast"]);
    assert_eq!(output.status.code(), Some(1));
    let last = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(last, "FAILED      Cargo.lock does not match the manifests: run 'cargo update --workspace'\n");
    assert!(stderr(&output).contains(stale), "{}", stderr(&output));
    assert_eq!(machine.log().iter().filter(|line| line.starts_with("cargo fetch")).count(), 1);
}

#[test]
fn ci_keeps_what_it_compiled_and_no_code_of_another_checkout() {
    let machine = Machine::new();
    let target = machine.path(".cache/flotilla-target");
    let run = || {
        fs::remove_file(machine.path("log")).ok();
        let output = machine.command("../.ci/run", &[]).env("CI", "1").output().expect("bash runs");
        assert!(output.status.success(), "{}", stderr(&output));
        machine.log().into_iter().filter(|line| line.starts_with("cargo clean")).collect::<Vec<_>>()
    };
    let cleaned = ["dev", "release"]
        .map(|profile| format!("cargo clean --quiet --locked --workspace --profile {profile}"));
    assert_eq!(run(), cleaned, "nobody knows what it was compiled for");
    assert!(machine.place("flock ") < machine.place("cargo clean"));
    assert!(machine.place("cargo clean") < machine.place("cargo build"));
    assert_eq!(run(), [""; 0], "it is the same checkout");
    fs::write(target.join("checkout"), "another one\n").expect("a file of the machine");
    assert_eq!(run(), cleaned);
}

#[test]
fn ci_does_not_wait_for_another_run_without_end() {
    let machine = Machine::new();
    machine.program("flock", "exit 1");
    let output = machine.command("../.ci/run", &[]).env("CI", "1").output().expect("bash runs");
    assert_eq!(output.status.code(), Some(1));
    let last = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(last.starts_with("ENVIRONMENT another run uses "), "{last}");
    assert!(!machine.log().iter().any(|line| line.starts_with("cargo")), "{:#?}", machine.log());
}

#[test]
fn the_exit_status_of_the_tests_is_that_of_the_script() {
    let machine = Machine::new();
    machine.write(&machine.path("target/my-machine/debug/gate"), "exit 1");
    assert_eq!(machine.run("test", &["fast"]).status.code(), Some(1));
    assert_eq!(machine.run("test", &["quick"]).status.code(), Some(2));
}
