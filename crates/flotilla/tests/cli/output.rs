use std::path::Path;

use flotilla_testkit::bundles::TINY_VERSION;
use insta::assert_snapshot;

use super::home_with_bundle;

#[test]
fn a_reader_that_goes_away_is_a_quiet_end() {
    let (home, _) = home_with_bundle();
    let commands: [&[&str]; 6] = [
        &["bundle", "show", TINY_VERSION],
        &["bundle", "show", TINY_VERSION, "-o", "json"],
        &["bundle", "list"],
        &["bundle", "verify", TINY_VERSION, "-o", "json"],
        &["completion", "bash"],
        &["--help"],
    ];
    for command in commands {
        let ran = home.run_unread(command);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{command:?}");
    }
}

#[test]
fn data_that_does_not_arrive_is_an_error() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run_into_file(["bundle", "show", TINY_VERSION], Path::new("/dev/full")), @"
    status: 26
    ----- stdout -----
    ----- stderr -----
    error[RSRC_DISK_FULL]: cannot write to standard output
      caused by: No space left on device (os error 28)
    hint: free some space and run the command again to resume
    ");
}

#[test]
fn there_are_no_colours_in_pipes() {
    let (home, _) = home_with_bundle();
    let home = home.with_env("TERM", "xterm-256color");
    for command in
        [&["bundle", "show", "nope"][..], &["bundle", "verify", TINY_VERSION], &["nope"], &["--help"]]
    {
        let ran = home.run(command);
        assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{command:?} {ran}");
    }
}
