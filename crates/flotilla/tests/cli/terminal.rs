use flotilla_testkit::bundles::TINY_VERSION;
use insta::assert_snapshot;

use super::home_with_bundle;

#[test]
fn steps_are_ticked_off() {
    let (home, _) = home_with_bundle();
    let seen = home.run_on_terminal(80, ["bundle", "verify", TINY_VERSION]);
    assert!(seen.has_colours());
    // While it ran there was a bar.
    assert!(seen.sent().contains('%'), "{:?}", seen.sent());
    assert_snapshot!(seen, @"
    status: 0
    ----- terminal -----
    ✓ checking v1.30.0 ([DURATION])
    verified bundle [DIGEST]: 3 files match
    ");
}

#[test]
fn without_progress_there_are_lines() {
    let (home, _) = home_with_bundle();
    let home = home.with_env("FLOTILLA_NO_PROGRESS", "1");
    let seen = home.run_on_terminal(80, ["bundle", "verify", TINY_VERSION]);
    assert!(!seen.sent().contains('%'), "{:?}", seen.sent());
    assert_snapshot!(seen, @"
    status: 0
    ----- terminal -----
    checking v1.30.0: done in [DURATION]
    verified bundle [DIGEST]: 3 files match
    ");
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let (home, _) = home_with_bundle();
    let seen = home.with_env("TERM", "dumb").run_on_terminal(80, ["bundle", "verify", TINY_VERSION]);
    assert!(!seen.sent().contains('\x1b'), "{:?}", seen.sent());
}

#[test]
fn errors_are_coloured_on_a_terminal_unless_unwanted() {
    let (home, _) = home_with_bundle();
    let seen = home.run_on_terminal(80, ["bundle", "show", "nope"]);
    assert!(seen.has_colours());
    assert_snapshot!(seen, @"
    status: 15
    ----- terminal -----
    error[BUNDLE_NOT_FOUND]: no bundle for nope
    hint: list the bundles with: flotilla bundle list
    ");
    let home = home.with_env("NO_COLOR", "1");
    for command in
        [&["bundle", "show", "nope"][..], &["bundle", "verify", TINY_VERSION], &["--help"], &["nope"]]
    {
        let seen = home.run_on_terminal(80, command);
        assert!(!seen.has_colours(), "{command:?} {:?}", seen.sent());
    }
}

#[test]
fn a_failed_step_leaves_no_bar() {
    let (home, digest) = home_with_bundle();
    std::fs::remove_file(home.state().join("bundles").join(digest).join("bin/kubectl")).unwrap();
    assert_snapshot!(home.run_on_terminal(100, ["bundle", "verify", TINY_VERSION]), @"
    status: 18
    ----- terminal -----
    error[BUNDLE_DAMAGED]: [DIGEST] is damaged: 1 of its files differ
        bin/kubectl: missing
    hint: remove and rebuild it: flotilla bundle remove [DIGEST], flotilla bundle build
    ");
}

#[test]
fn a_narrow_terminal_shows_whole_lines_in_the_end() {
    let (home, _) = home_with_bundle();
    let file = "a-file-with-a-rather-long-name.tar.zst";
    let seen = home.run_on_terminal(40, ["bundle", "export", TINY_VERSION, file]);
    assert_eq!(seen.screen[0], "✓ writing a-file-with-a-rather-long-name");
    assert!(seen.screen[1].starts_with(".tar.zst ("), "{seen}");
    assert!(seen.screen[2].starts_with("exported bundle sha256:"), "{seen}");
}
