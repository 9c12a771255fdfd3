use std::fs;

use flotilla_linux::host::Command;
use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::stopped::home_with;
use super::{home, home_with_bundle};

/// What a shell is offered for the last of the words.
fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let asked = Command::new(env!("CARGO_BIN_EXE_flotilla"))
        .env("FLOTILLA_HOME", home.state())
        .env("COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .args(["--", "flotilla"])
        .args(words);
    let answer = asked.run().expect("it answers").stdout;
    String::from_utf8(answer).expect("names are text").lines().map(str::to_owned).collect()
}

#[test]
fn commands_and_flags_are_completed() {
    let home = home();
    for (words, expected) in [
        (&["st"][..], "start"),
        (&["update"], "update-context"),
        (&["bundle", "ver"], "verify"),
        (&["bundle", "build", "--kubernetes-v"], "--kubernetes-version"),
        (&["--prof"], "--profile"),
        (&["node", "add", "--pub"], "--publish"),
    ] {
        let offered = offered(&home, words);
        assert!(offered.iter().any(|word| word == expected), "{words:?}: {offered:?}");
    }
}

#[test]
fn names_of_clusters_nodes_and_bundles_are_completed() {
    let nodes = "- {name: demo, role: control-plane}\n- {name: demo-m02, role: worker}\n";
    let Some(home) = home_with(nodes, &["demo", "demo-m02"]) else { return };
    assert_eq!(offered(&home, &["status", "-p", ""]), ["demo"]);
    assert_eq!(offered(&home, &["node", "stop", "-p", "demo", "m"]), ["m02"]);
    assert_eq!(offered(&home, &["--profile=demo", "ssh", "m"]), ["m02"]);
    assert_eq!(offered(&home, &["-p", "demo", "logs", "--node", "m"]), ["m02"]);
    assert!(offered(&home, &["node", "stop", "m"]).is_empty(), "another cluster's");
    assert!(offered(&home, &["node", "add", "-p", "demo", "m"]).is_empty(), "it is to be new");
    let (home, _) = home_with_bundle();
    assert_eq!(offered(&home, &["bundle", "show", "v1"]), [flotilla_testkit::bundles::TINY_VERSION]);
}

#[test]
fn each_shell_takes_its_script() {
    let home = home();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(["completion", shell]).success().stdout;
        assert!(script.contains("flotilla"), "{shell}");
        if Command::new(shell).arg("--version").run().is_err() {
            flotilla_testkit::skip(&format!("there is no {shell}"));
            continue;
        }
        let file = home.path().join(shell);
        fs::write(&file, script).unwrap();
        Command::new(shell).arg("-n").arg(&file).run().unwrap();
    }
}

#[test]
fn another_shell_is_refused() {
    assert_snapshot!(home().run(["completion", "tcsh"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'tcsh' for '<SHELL>'
      [possible values: bash, zsh, fish]

      tip: a similar value exists: 'zsh'

    For more information, try '--help'.
    ");
}
