//! Without root nothing is touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use flotilla_linux::host::Command;
use flotilla_testkit::{Home, Ran};
use insta::assert_snapshot;
use tempfile::TempDir;

use super::home;

const NOBODY: u32 = 65534;

/// A user without rights, in a home of their own.
struct Nobody {
    home: Home,
    /// What comes before each command.
    prefix: Vec<String>,
    /// Where the program is for everybody.
    directory: TempDir,
}

impl Nobody {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the program");
        if !flotilla_testkit::is_root() {
            return Self { home: home(), prefix: Vec::new(), directory };
        }
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let program = directory.path().join("flotilla");
        // By another process: a file that this one writes may be inherited, still open, by a child of another test, and a
        // program that is open for writing cannot be run.
        let source = env!("CARGO_BIN_EXE_flotilla");
        Command::new("cp").arg(source).arg(&program).run().expect("a copy of the program");
        let home = Home::new("setpriv");
        chown(home.path(), Some(NOBODY), Some(NOBODY)).expect("root may give it away");
        let prefix = vec![
            format!("--reuid={NOBODY}"),
            format!("--regid={NOBODY}"),
            "--clear-groups".into(),
            program.display().to_string(),
        ];
        Self { home, prefix, directory }
    }

    /// The same program under another name.
    fn calls_it(mut self, name: &str) -> Self {
        let link = self.directory.path().join(name);
        symlink(self.program(), &link).expect("a link to the program");
        match self.prefix.last_mut() {
            Some(program) => *program = link.display().to_string(),
            None => self.home = Home::new(link),
        }
        self
    }

    /// Where the program is that this user runs.
    fn program(&self) -> &str {
        self.prefix.last().map_or(env!("CARGO_BIN_EXE_flotilla"), String::as_str)
    }

    fn run(&self, command: &[&str]) -> Ran {
        let prefix = self.prefix.iter().map(String::as_str);
        self.home.run(prefix.chain(command.iter().copied()))
    }
}

#[test]
fn who_is_not_root_is_told_what_to_do() {
    let nobody = Nobody::new();
    let ran = nobody.run(&["start"]).to_string().replace(nobody.program(), "[PROGRAM]");
    assert_snapshot!(ran, @"
    status: 37
    ----- stdout -----
    ----- stderr -----
    error[HOST_PERMISSION]: you are not root
    hint: run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy [PROGRAM] start`
    ");
    let typed = |command: &[&str], ran: &Ran| {
        let hint = format!(" {} {}`\n", nobody.program(), command.join(" "));
        assert!(ran.stderr.contains(&hint), "{ran}");
        ran.to_string().replace(&hint, "")
    };
    let reported = typed(&["start"], &nobody.run(&["start"]));
    let commands: [&[&str]; 9] = [
        &["start", "--dry-run"],
        &["start", "--force"],
        &["status"],
        &["stop", "--all"],
        &["delete"],
        &["delete", "--all"],
        &["ssh"],
        &["kubectl", "--", "get", "nodes"],
        &["ip", "-p", "demo"],
    ];
    for command in commands {
        assert_eq!(typed(command, &nobody.run(command)), reported, "{command:?}");
    }
    assert!(nobody.home.files().is_empty(), "{:?}", nobody.home.files());
}

/// sudo runs the program by its own path.
#[test]
fn the_hint_means_the_same_where_the_program_has_another_name() {
    for (name, typed, pasted) in [
        ("kubectl", "--context demo get pods", "kubectl --profile demo -- --context demo get pods"),
        ("minikube", "start", "-p minikube start"),
        ("minikube", "stop -p demo", "stop -p demo"),
    ] {
        let nobody = Nobody::new();
        let program = nobody.program().to_owned();
        let ran = nobody.calls_it(name).run(&typed.split(' ').collect::<Vec<_>>());
        assert!(ran.stderr.contains(&format!(" {program} {pasted}`\n")), "{ran}");
    }
}

#[test]
fn bad_input_is_told_before_that() {
    let nobody = Nobody::new();
    assert_eq!(nobody.run(&["start", "--memory", "10"]).status, 23);
    assert_eq!(nobody.run(&["status", "-p", "a/b"]).status, 14);
}

#[test]
fn doctor_says_it_as_well() {
    let nobody = Nobody::new();
    let ran = nobody.run(&["doctor"]);
    assert_eq!(ran.status, 37, "{ran}");
    assert!(ran.stdout.starts_with("fatal    permission: you are not root\n"), "{ran}");
    assert!(ran.stdout.contains(&format!(" {} doctor`\n", nobody.program())), "{ran}");
    assert!(nobody.home.files().is_empty());
}

#[test]
fn what_sudo_made_can_be_listed_without_it() {
    if !flotilla_testkit::is_root() {
        return;
    }
    let nobody = Nobody::new();
    let digest = flotilla_testkit::bundles::tiny(&nobody.home.path().join("made"));
    let (made, state) = (nobody.home.path().join("made"), nobody.home.path().join(".flotilla"));
    // As sudo runs it: root, in the user's home, with the name of who called it.
    let sudo = |command: &[&str]| {
        let home = Home::new(env!("CARGO_BIN_EXE_flotilla")).without_env("FLOTILLA_HOME");
        let home = home.with_env("HOME", nobody.home.path());
        let home = home.with_env("SUDO_UID", NOBODY.to_string()).with_env("SUDO_GID", NOBODY.to_string());
        home.run(command)
    };
    fs::rename(&made, &state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(state.join("bundles"), Permissions::from_mode(0o700)).unwrap();
    drop(sudo(&["bundle", "clean"]).success());
    let nobody = Nobody { home: nobody.home.without_env("FLOTILLA_HOME"), ..nobody };
    let listed = nobody.run(&["bundle", "list", "-o", "json"]).success();
    assert!(listed.stdout.contains(&digest), "{listed}");
    // What is in it stays root's.
    assert_eq!(fs::metadata(&state).unwrap().uid(), NOBODY);
    assert_eq!(fs::metadata(state.join("bundles")).unwrap().uid(), 0);
    let refused = nobody.run(&["bundle", "remove", &digest]);
    assert_eq!(refused.status, 37, "{refused}");
    assert!(refused.stderr.contains("sudo --preserve-env=PATH,HOME,FLOTILLA_HOME"), "{refused}");
}

#[test]
fn clusters_are_listed_where_the_state_can_be_read() {
    let nobody = Nobody::new();
    assert_eq!(nobody.run(&["list", "-o", "json"]).success().json(), serde_json::json!([]));
    if !flotilla_testkit::is_root() {
        return;
    }
    let clusters = nobody.home.state().join("clusters");
    fs::create_dir_all(&clusters).unwrap();
    fs::set_permissions(nobody.home.state(), Permissions::from_mode(0o700)).unwrap();
    let ran = nobody.run(&["list"]);
    assert!(ran.status == 37 && ran.stderr.contains("`sudo --preserve-env="), "{ran}");
    let ran = nobody.run(&["profile", "demo"]);
    assert!(ran.status == 37 && ran.stderr.contains("`sudo --preserve-env="), "{ran}");
    for directory in [nobody.home.state(), clusters] {
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    drop(nobody.run(&["list"]).success());
}
