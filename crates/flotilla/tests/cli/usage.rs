use flotilla_testkit::write_program;
use insta::assert_snapshot;

use super::home;

#[test]
fn an_unknown_command_gets_a_suggestion() {
    let home = home();
    assert_snapshot!(home.run(["strat"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unrecognized subcommand 'strat'

      tip: a similar subcommand exists: 'start'

    Usage: flotilla [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(home.run(["bundle", "lst"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unrecognized subcommand 'lst'

      tip: a similar subcommand exists: 'list'

    Usage: flotilla bundle [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert!(home.files().is_empty());
}

#[test]
fn scripts_that_ask_for_json_get_usage_errors_as_an_event() {
    let home = home();
    for asked in [&["-o", "json"][..], &["-ojson"], &["--output=json"], &["--output", "json"]] {
        let ran = home.run(["bundle", "build", "--kubernetes-versoin", "v1.37.1"].iter().chain(asked));
        assert_eq!((ran.status, ran.stderr.as_str()), (14, ""), "{ran}");
        let event = &ran.events()[0];
        assert_eq!((&event["data"]["name"], &event["data"]["exitcode"]), (&"MK_USAGE".into(), &"14".into()));
        let message = event["data"]["message"].as_str().unwrap();
        assert_eq!(message, "unexpected argument '--kubernetes-versoin' found");
        assert!(event["data"]["advice"].as_str().unwrap().contains("--kubernetes-version"), "{ran}");
    }
    // What stands behind `--` is for another program.
    assert_eq!(home.run(["strat", "--", "-o", "json"]).stdout, "");
}

#[test]
fn an_unknown_flag_is_refused() {
    let home = home();
    assert_snapshot!(home.run(["bundle", "build", "--kubernetes-versoin", "v1.37.1"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unexpected argument '--kubernetes-versoin' found

      tip: a similar argument exists: '--kubernetes-version'

    Usage: flotilla bundle build --kubernetes-version <VERSION>

    For more information, try '--help'.
    ");
    assert!(home.files().is_empty());
}

#[test]
fn a_missing_argument_is_named() {
    assert_snapshot!(home().run(["bundle", "export", "v1.37.1"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <FILE>

    Usage: flotilla bundle export <VERSION|DIGEST> <FILE>

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_format_is_refused() {
    assert_snapshot!(home().run(["bundle", "list", "-o", "yaml"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'yaml' for '--output <OUTPUT>'
      [possible values: text, json]

    For more information, try '--help'.
    ");
}

#[test]
fn a_command_for_a_node_stands_behind_two_dashes() {
    assert_snapshot!(home().run(["node", "ssh", "m02", "ls"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unexpected argument 'ls' found

    Usage: flotilla node ssh [OPTIONS] [NAME] [-- <COMMAND>...]

    For more information, try '--help'.
    ");
}

#[test]
fn a_copy_has_two_ends() {
    assert_snapshot!(home().run(["cp", "file"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <[NODE:]DST>

    Usage: flotilla cp <[NODE:]SRC> <[NODE:]DST>

    For more information, try '--help'.
    ");
    assert_snapshot!(home().run(["node", "cp", "file"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: 2 values required by '<NAME> <SRC> [DST]...'; only 1 was provided

    Usage: flotilla node cp [OPTIONS] [NAME] <SRC> <DST>

    For more information, try '--help'.
    ");
}

#[test]
fn one_node_is_paused_by_its_name() {
    assert_snapshot!(home().run(["node", "pause"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <NAME>

    Usage: flotilla node pause <NAME>

    For more information, try '--help'.
    ");
}

#[test]
fn there_are_not_more_nodes_than_anybody_means() {
    for typed in [
        ["node", "add", "--count"],
        ["start", "--dry-run", "--nodes"],
        ["start", "--dry-run", "--control-planes"],
    ] {
        let ran = home().run(typed.iter().chain(&["4000000000"]));
        assert_eq!(ran.status, 14, "{ran}");
        assert!(ran.stderr.contains("invalid value '4000000000'") && ran.stderr.contains("1000"), "{ran}");
    }
}

#[test]
fn what_comes_with_docker_is_refused_with_the_reason() {
    const REASON: &str = "this needs the Docker driver, which is not implemented yet: nodes have containerd";
    let typed: [&[&str]; 5] = [
        &["docker-env"],
        &["worker", "docker-env", "m02"],
        &["start", "--docker-env", "A=b"],
        &["worker", "create", "node-1", "--docker-env=A=b"],
        &["worker", "create", "node-1", "--docker-opt=debug"],
    ];
    for typed in typed {
        let ran = home().run(typed);
        assert_eq!(ran.status, 14, "{ran}");
        assert!(ran.stderr.contains(REASON), "{ran}");
    }
    let ran = home().run(["docker-env"]);
    assert!(ran.stderr.contains("docker save my-app:1 | flotilla ssh -- ctr"), "{ran}");
}

/// `bundle build` asks the `go` in the PATH for its version first; this one is too old for all the rest.
#[test]
fn debug_output_goes_to_stderr_and_only_when_asked_for() {
    let tools = home();
    write_program(&tools.path().join("go"), "#!/bin/sh\necho go1.2\n");
    let home = home().with_env("PATH", tools.path());
    let build = |asked: &[&str]| home.run(["bundle", "build"].iter().chain(asked));
    for asked in [&["-v", "1"][..], &["-v=1"], &["--verbose"], &["--v=3"]] {
        let ran = build(asked);
        assert!(ran.stderr.contains("`go env GOVERSION`: exit status: 0 after "), "{asked:?} {ran}");
        assert_eq!(ran.stdout, "", "{asked:?}");
    }
    for asked in [&[][..], &["-v", "0"], &["--alsologtostderr"]] {
        assert!(!build(asked).stderr.contains("GOVERSION"), "{asked:?}");
    }
    assert_eq!(build(&["-v", "lots"]).status, 14);
}
