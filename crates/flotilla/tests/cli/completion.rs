use std::fs;

use flotilla_linux::host::Command;
use insta::assert_snapshot;

use super::home;

#[test]
fn each_shell_gets_a_script_that_knows_the_commands() {
    let home = home();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(["completion", shell]).success().stdout;
        for word in [
            "start",
            "update-context",
            "bundle",
            "verify",
            "kubernetes-version",
            "profile",
            "unpause",
            "cp",
            "publish",
        ] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn each_shell_takes_its_script() {
    let home = home();
    for shell in ["bash", "zsh", "fish"] {
        if Command::new(shell).arg("--version").run().is_err() {
            flotilla_testkit::skip(&format!("there is no {shell}"));
            continue;
        }
        let file = home.path().join(shell);
        fs::write(&file, home.run(["completion", shell]).success().stdout).unwrap();
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
