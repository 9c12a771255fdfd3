//! Whole runs, with stand-ins for cargo and for the test binaries.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const OK: &str = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'";
const FAILS: &str = "
    echo 'test a::b ... FAILED'
    printf 'failures:\\n\\n---- a::b stdout ----\\npanicked: it is wrong\\n\\n\\nfailures:\\n    a::b\\n\\n'
    echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored'
    exit 101";

/// A source tree in which cargo compiles three test binaries.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "home", "scripts", "target", "crates/flotilla", "crates/flotilla-native"] {
            fs::create_dir_all(tree.path(folder)).unwrap();
        }
        let artifact = |package: &str, kind: &str, target: &str, test: bool, program: &str| {
            let manifest = tree.path("crates").join(package).join("Cargo.toml");
            format!(
                r#"{{"manifest_path":"{}","target":{{"kind":["{kind}"],"name":"{target}"}},"profile":{{"test":{test}}},"executable":"{}"}}"#,
                manifest.display(),
                tree.path(program).display()
            )
        };
        let messages = [
            artifact("flotilla", "test", "cli", true, "target/cli"),
            artifact("flotilla", "test", "e2e", true, "target/e2e"),
            artifact("flotilla-native", "test", "native", true, "target/native"),
            artifact("flotilla", "bin", "flotilla", false, "target/flotilla"),
        ];
        fs::write(tree.path("messages"), messages.join("\n")).unwrap();
        // Compiling replaces the file of the program that runs.
        let cargo = format!(
            "case \"$1 $*\" in test*json*) rm -f {}; exec cat {};; esac; echo \"cargo $*\" >> {}",
            tree.path("target/gate").display(),
            tree.path("messages").display(),
            tree.path("calls").display()
        );
        tree.program("bin/cargo", &cargo);
        tree.program("bin/rustc", "echo rustc 1.95.0");
        tree.program("bin/shellcheck", "exit 0");
        tree.program("target/cli", OK);
        tree.program("target/e2e", &tree.call("e2e $*", OK));
        tree.program("target/native", &tree.call("native $FLOTILLA_TEST_BUNDLE", OK));
        let built = r#"echo '{"type":"result","data":{"digest":"abc123"}}'"#;
        tree.program("target/flotilla", &tree.call("flotilla $*", built));
        fs::write(tree.path("scripts/test"), "").unwrap();
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn call(&self, what: &str, script: &str) -> String {
        format!("echo \"{what}\" >> {}\n{script}", self.path("calls").display())
    }

    /// Written by a process of its own: a descriptor that another test's child has inherited keeps a program from being run.
    fn program(&self, name: &str, script: &str) {
        let mut shell = command("sh");
        let path = self.path(name);
        shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        write!(child.stdin.take().unwrap(), "#!/bin/sh\n{script}\n").unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn run(&self, args: &[&str]) -> Run {
        let output = self.gate(args).output().unwrap();
        Run {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            calls: self.text("calls"),
            output,
        }
    }

    /// The program, not yet run.
    fn gate(&self, args: &[&str]) -> Command {
        // The log is beside the program.
        let program = self.path("target/gate");
        if !program.exists() {
            fs::hard_link(env!("CARGO_BIN_EXE_gate"), &program)
                .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_gate"), &program).map(drop))
                .unwrap();
        }
        let mut gate = command(&program.display().to_string());
        gate.args(args).current_dir(self.folder.path()).env_clear();
        gate.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("HOME", self.path("home"));
        // The run that this is part of has the machine's.
        gate.env("FLOTILLA_TEST_LOCK", self.path("lock"));
        gate
    }

    /// Starts a run that goes on beside the test, and prints into a file of the tree.
    fn start(&self, args: &[&str], output: &str, lock: &Path) -> Running {
        let file = fs::File::create(self.path(output)).unwrap();
        let mut gate = self.gate(args);
        gate.env("FLOTILLA_TEST_LOCK", lock).stderr(file.try_clone().unwrap()).stdout(file);
        Running(gate.spawn().unwrap())
    }

    /// What a file has so far.
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until a file has this.
    fn wait_for(&self, name: &str, text: &str) {
        let begun = Instant::now();
        while !self.text(name).contains(text) {
            assert!(begun.elapsed() < PATIENCE, "no {text:?} in {name}:\n{}", self.text(name));
            pause();
        }
    }
}

/// A run that ends with its test.
struct Running(Child);

impl Running {
    fn wait(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Neither does anything to one that has been waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// How long anything may take here, on however busy a machine.
const PATIENCE: Duration = Duration::from_mins(1);

#[expect(clippy::disallowed_methods, reason = "a test has to poll")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A test binary that says it has begun, and ends when the tree has the file `release`.
fn held(tree: &Tree) -> String {
    let release = tree.path("release");
    tree.call("tests", &format!("until [ -e {} ]; do sleep 0.1; done\n{OK}", release.display()))
}

#[derive(Debug)]
struct Run {
    stdout: String,
    /// Programs that were called, one a line.
    calls: String,
    output: Output,
}

impl Run {
    fn status(&self) -> Option<i32> {
        self.output.status.code()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the product's wrapper is for nodes and hosts, not for tests of tests"
)]
fn command(program: &str) -> Command {
    Command::new(program)
}

#[test]
fn fast_runs_every_stage_and_no_cluster() {
    let tree = Tree::new();
    let run = tree.run(&["fast"]);
    assert_eq!(run.status(), Some(0), "{run:#?}");
    assert!(run.stdout.ends_with("\n3 passed, 0 failed, 0 skipped\n"), "{}", run.stdout);
    let calls: Vec<_> = run.calls.lines().map(|line| line.split(" --").next().unwrap()).collect();
    assert_eq!(calls, ["cargo fmt", "cargo test", "cargo clippy"]);
}

#[test]
fn what_fails_hides_nothing_that_comes_later_but_the_clusters() {
    let tree = Tree::new();
    tree.program("bin/shellcheck", "echo 'SC1000: a quote is missing'; exit 1");
    tree.program("target/cli", FAILS);
    let run = tree.run(&[]);
    assert_eq!(run.status(), Some(1), "{run:#?}");
    assert!(run.stdout.contains("SC1000"), "{}", run.stdout);
    assert!(run.stdout.contains("panicked: it is wrong"), "{}", run.stdout);
    let last: Vec<_> = run.stdout.lines().rev().take(5).collect();
    assert_eq!(last[0], "2 passed, 1 failed, 0 skipped");
    assert_eq!(last[1], "exit 1 in stages: scripts, unit tests");
    assert!(last[3].starts_with("FAILED      flotilla::cli a::b (log line "), "{last:?}");
    assert!(last[4].starts_with("FAILED      scripts (exit status: 1; log line "), "{last:?}");
    assert!(run.calls.contains("cargo clippy"), "{}", run.calls);
    assert!(!run.calls.contains("flotilla bundle"), "{}", run.calls);
}

#[test]
fn clusters_get_the_bundle_that_was_built() {
    let tree = Tree::new();
    let run = tree.run(&["core"]);
    assert_eq!(run.status(), Some(0), "{run:#?}");
    let calls: Vec<_> = run.calls.lines().skip_while(|line| !line.starts_with("flotilla")).collect();
    let build = "flotilla bundle build --source build -o json --keep-cache";
    assert_eq!(calls, [build, build, "native abc123", "e2e [core] --ignored --test-threads=2"]);
}

#[test]
fn a_registry_that_does_not_answer_is_no_failure_of_ours() {
    let tree = Tree::new();
    tree.program("target/flotilla", "echo 'error[BUNDLE_CHECKSUM]: cut off' >&2; exit 40");
    let run = tree.run(&["core"]);
    assert_eq!(run.status(), Some(1), "{run:#?}");
    assert!(run.stdout.contains("\nENVIRONMENT bundle (exit status: 40; log line "), "{}", run.stdout);
    assert!(!run.calls.contains("native"), "{}", run.calls);
}

#[test]
fn what_does_not_compile_ends_the_run() {
    let tree = Tree::new();
    tree.program("bin/cargo", "[ \"$1\" != test ] || { echo 'error[E0308]: mismatched types'; exit 101; }");
    let run = tree.run(&["fast"]);
    assert_eq!(run.status(), Some(1), "{run:#?}");
    assert!(run.stdout.contains("error[E0308]"), "{}", run.stdout);
    assert!(run.stdout.contains("\nFAILED      compiling (exit status: 101; log line "), "{}", run.stdout);
}

#[test]
fn an_error_of_the_gate_itself_hides_no_failure() {
    let tree = Tree::new();
    tree.program("bin/shellcheck", "exit 1");
    fs::write(tree.path("messages"), "no JSON").unwrap();
    let run = tree.run(&["fast"]);
    assert_eq!(run.status(), Some(1), "{run:#?}");
    assert!(run.stdout.contains("\nFAILED      scripts (exit status: 1; log line "), "{}", run.stdout);
    let own = "\nFAILED      the gate itself (cargo printed something else than JSON: ";
    assert!(run.stdout.contains(own), "{}", run.stdout);
    assert!(run.stdout.contains("exit 1 in stages: scripts, compiling\n"), "{}", run.stdout);

    // A binary that cannot be started hides neither the others nor the lints.
    let tree = Tree::new();
    fs::remove_dir_all(tree.path("crates/flotilla")).unwrap();
    let run = tree.run(&["fast"]);
    assert_eq!(run.status(), Some(1), "{run:#?}");
    assert!(run.stdout.contains("\nFAILED      flotilla::cli (not started: "), "{}", run.stdout);
    assert!(run.stdout.contains("exit 1 in stage: unit tests\n"), "{}", run.stdout);
    assert!(run.calls.contains("cargo clippy"), "{}", run.calls);
}

#[test]
fn a_crash_is_reported_with_its_signal() {
    let tree = Tree::new();
    tree.program("target/cli", "kill -ABRT $$");
    let run = tree.run(&["fast"]);
    assert_eq!(run.status(), Some(1), "{run:#?}");
    assert!(run.stdout.contains("\nFAILED      flotilla::cli (signal: 6"), "{}", run.stdout);
}

#[test]
fn in_ci_the_time_before_the_gate_counts_too() {
    let tree = Tree::new();
    tree.program("target/cli", FAILS);
    let mut gate = tree.gate(&["fast"]);
    let output = gate.env("CI", "1").env("FLOTILLA_TEST_BEGUN", "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("\nFAILED      compiling (not run, no time was left; log line "), "{stdout}");
    assert_eq!(tree.text("calls"), "");
    // A person may take as long as they like.
    let output = tree.gate(&["fast"]).env("FLOTILLA_TEST_BEGUN", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 passed, 1 failed"), "{output:?}");
}

#[test]
fn a_second_run_in_one_checkout_waits_before_it_touches_anything() {
    let tree = Tree::new();
    tree.program("target/cli", &held(&tree));
    let mut first = tree.start(&["fast"], "first", &tree.path("lock"));
    tree.wait_for("calls", "tests");
    // Even if nothing but the compiled programs is shared.
    let mut second = tree.start(&["fast"], "second", &tree.path("other-lock"));
    tree.wait_for("second", &format!("waiting for the run in {}", tree.path("target").display()));
    assert!(
        tree.text("second").contains(&format!("process {} in /", first.0.id())),
        "{}",
        tree.text("second")
    );
    let compiled = |calls: &str| calls.lines().filter(|line| line.starts_with("cargo test")).count();
    assert_eq!(compiled(&tree.text("calls")), 1, "the first run's programs are not compiled again");
    fs::write(tree.path("release"), "").unwrap();
    assert_eq!(first.wait(), Some(0), "{}", tree.text("first"));
    assert_eq!(second.wait(), Some(0), "{}", tree.text("second"));
    assert_eq!(compiled(&tree.text("calls")), 2);
}

#[test]
fn another_checkout_compiles_and_then_waits_for_the_machine() {
    let (one, other) = (Tree::new(), Tree::new());
    one.program("target/cli", &held(&one));
    let lock = one.path("lock");
    let first = one.start(&["fast"], "out", &lock);
    one.wait_for("calls", "tests");
    other.program("target/cli", &other.call("tests", OK));
    let mut second = other.start(&["fast"], "out", &lock);
    other.wait_for("out", &format!("waiting for other tests on this machine: process {} in /", first.0.id()));
    assert!(other.text("calls").contains("cargo test"), "{}", other.text("calls"));
    assert!(!other.text("calls").contains("tests\n"), "{}", other.text("calls"));
    // The lock is free as soon as its holder has been killed, too.
    drop(first);
    assert_eq!(second.wait(), Some(0), "{}", other.text("out"));
    fs::write(one.path("release"), "").unwrap();
}

/// A test binary that cleans up slowly when it is asked to end, with a program beside it that does not heed that.
fn slow_to_end(tree: &Tree) -> String {
    let calls = tree.path("calls");
    let calls = calls.display();
    format!(
        "(trap '' TERM; exec sleep 300) & echo \"beside $!\" >> {calls}
        trap 'sleep 1; echo cleaned >> {calls}; exit 1' TERM
        echo tests >> {calls}
        for _ in $(seq 600); do sleep 0.1; done"
    )
}

/// The process that [`slow_to_end`] has started beside itself.
fn beside(tree: &Tree) -> PathBuf {
    let calls = tree.text("calls");
    Path::new("/proc").join(calls.lines().find_map(|line| line.strip_prefix("beside ")).unwrap())
}

/// Whether a process runs, and is not only left for its parent to look at.
fn runs(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// It has been killed by now; the kernel takes a moment for that.
fn assert_ends(process: &Path) {
    let begun = Instant::now();
    while runs(process) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} still runs", process.display());
        pause();
    }
}

#[test]
fn a_gate_that_is_killed_leaves_nothing_and_the_next_run_waits_for_that() {
    let tree = Tree::new();
    tree.program("target/cli", &slow_to_end(&tree));
    let lock = tree.path("lock");
    let first = tree.start(&["fast"], "first", &lock);
    tree.wait_for("calls", "tests");
    let beside = beside(&tree);
    assert!(runs(&beside));
    drop(first);
    tree.program("target/cli", &tree.call("second", OK));
    let mut second = tree.start(&["fast"], "second", &lock);
    assert_eq!(second.wait(), Some(0), "{}", tree.text("second"));
    let calls = tree.text("calls");
    assert!(calls.find("cleaned").unwrap() < calls.find("second").unwrap(), "{calls}");
    assert_ends(&beside);
}

#[test]
fn tests_that_run_as_another_user_end_with_an_interrupted_gate() {
    let tree = Tree::new();
    let build = r#"echo '{"type":"result","data":{"digest":"abc123"}}'"#;
    tree.program("target/flotilla", build);
    tree.program("target/native", &slow_to_end(&tree));
    // Like sudo: what it starts gets none of the signals that its caller sends.
    tree.program("scripts/as-root", "exec setsid --fork --wait \"$@\"");
    let file = fs::File::create(tree.path("out")).unwrap();
    let mut gate = tree.gate(&["core"]);
    if rustix::process::geteuid().is_root() {
        let chown = command("chown").args(["-R", "65534:65534"]).arg(tree.folder.path()).status();
        assert!(chown.unwrap().success());
        // With the same directory and environment.
        let mut other = command("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(gate.get_program());
        other.args(gate.get_args()).current_dir(tree.folder.path()).env_clear();
        other.envs(gate.get_envs().filter_map(|(name, value)| Some((name, value?))));
        gate = other;
    }
    let mut gate = Running(gate.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap());
    tree.wait_for("calls", "tests");
    let beside = beside(&tree);
    rustix::process::kill_process(rustix::process::Pid::from_child(&gate.0), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(gate.wait(), Some(130), "{}", tree.text("out"));
    assert!(tree.text("calls").contains("cleaned"), "{}", tree.text("calls"));
    assert_ends(&beside);
}

#[test]
fn other_words_are_refused() {
    let run = Tree::new().run(&["quick"]);
    assert_eq!(run.status(), Some(1));
    assert!(String::from_utf8_lossy(&run.output.stderr).contains("expected fast, core, full"));
    assert_eq!(run.calls, "");
}
