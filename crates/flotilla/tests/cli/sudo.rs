//! The program under the name that it has in nodes beside `systemctl`.

use flotilla_testkit::{Home, Ran};
use insta::assert_snapshot;

use super::may_be_root;

/// Runs a line of shell with our program as `sudo`.
fn sudo(line: &str) -> Option<Ran> {
    if !may_be_root() {
        return None;
    }
    let script = format!("ln -s \"$0\" \"$HOME/sudo\"\nPATH=\"$HOME:$PATH\"\n{line}");
    Some(Home::new("sh").run(["-euc", &script, env!("CARGO_BIN_EXE_flotilla")]))
}

#[test]
fn it_becomes_the_command() {
    let Some(ran) = sudo("echo in | sudo -E -n A='b c' sh -c 'cat; echo \"$A $SUDO_UID\"; exit 9'") else {
        return;
    };
    assert_snapshot!(ran, @"
    status: 9
    ----- stdout -----
    in
    b c 0
    ----- stderr -----
    ");
}

#[test]
fn what_it_cannot_run_is_an_error_of_its_own() {
    let Some(ran) = sudo("sudo --nothing || sudo not-there") else { return };
    assert_snapshot!(ran, @"
    status: 1
    ----- stdout -----
    ----- stderr -----
    sudo: unknown option --nothing; `sudo --help` lists those that a node's sudo has
    sudo: not-there: command not found
    ");
}
