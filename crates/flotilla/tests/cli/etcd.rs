//! Commands about etcd and a lost majority, as far as they need no cluster.

use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::home;
use super::stopped::home_with;

/// A path in the home.
fn below(home: &Home, name: &str) -> String {
    home.path().join(name).to_str().expect("a home has a path of UTF-8").to_owned()
}

#[test]
fn help_of_etcd() {
    assert_snapshot!(home().run(["etcd", "--help"]), @"
    status: 0
    ----- stdout -----
    Show, save and restore what the cluster's API holds

    Usage: flotilla etcd [OPTIONS] <COMMAND>

    Commands:
      status    Show the members of etcd: who leads, who is up, how many may still fail
      snapshot  Save and restore all that the cluster's API holds
      help      Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla etcd status                   who is a member, how many may fail
      flotilla etcd snapshot save FILE
      flotilla etcd snapshot restore FILE
    ----- stderr -----
    ");
}

#[test]
fn help_of_recover_says_what_may_be_lost() {
    assert_snapshot!(home().run(["recover", "--help"]), @"
    status: 0
    ----- stdout -----
    Bring back a control plane that has lost its majority for good

    Makes an etcd of one member out of what a surviving control plane has, or of a snapshot. All others
    leave it, and join it anew with the next `flotilla start`. What a majority had agreed on and no
    survivor has heard of is lost: where the others can be started, start them instead.

    Usage: flotilla recover [OPTIONS]

    Options:
          --from <FILE>
              Snapshot to begin from, instead of what the survivor has

      -y, --yes
              Do not ask

          --no-wait-lock
              Fail at once if another command changes the cluster, instead of waiting for it

      -o, --output <OUTPUT>
              Output format
              
              [default: text]
              [possible values: text, json]

      -h, --help
              Print help (see a summary with '-h')

    Global options:
      -p, --profile <NAME>
              Name of the cluster [default: flotilla]

      -v, --verbosity <LEVEL>
              Print what is done: 1 every step and program, 4 also requests to the API, 7 everything
              
              [alias: --v]

          --verbose
              The same as `-v 1`

    Examples:
      flotilla recover
      flotilla recover --from nightly.snapshot --yes
    ----- stderr -----
    ");
}

#[test]
fn a_stopped_cluster_has_nobody_to_ask() {
    let Some(home) = home_with("- name: demo\n  role: control-plane\n  power: stopped\n", &["demo"]) else {
        return;
    };
    let told = "\
status: 83
----- stdout -----
----- stderr -----
error[GUEST_NOT_RUNNING]: cluster demo is stopped
hint: start it with `flotilla start -p demo`
";
    let file = below(&home, "etcd.snapshot");
    for command in [&["etcd", "status"][..], &["etcd", "snapshot", "save", &file]] {
        assert_eq!(home.run(["-p", "demo"].iter().chain(command)).to_string(), told, "{command:?}");
    }
}

#[test]
fn a_file_is_not_written_over_unless_forced() {
    let Some(home) = home_with("- name: demo\n  role: control-plane\n", &["demo"]) else { return };
    let file = below(&home, "etcd.snapshot");
    std::fs::write(&file, "mine").unwrap();
    assert_snapshot!(home.run(["-p", "demo", "etcd", "snapshot", "save", &file]), @"
    status: 31
    ----- stdout -----
    ----- stderr -----
    error[HOST_FILE_EXISTS]: [HOME]/etcd.snapshot is there already
    hint: --force writes over it
    ");
    let forced = home.run(["-p", "demo", "etcd", "snapshot", "save", &file, "--force"]);
    assert_eq!(forced.status, 83, "there is nothing to save: {forced}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn what_cannot_be_undone_is_told_and_asked_for() {
    let spec = "- {name: demo, role: control-plane}\n- {name: m02, role: control-plane}\n";
    let Some(home) = home_with(spec, &["demo", "m02"]) else { return };
    assert_snapshot!(home.run(["-p", "demo", "recover"]), @"
    status: 14
    ----- stdout -----
    control planes of demo: demo, m02
    those that are there are turned on; if a majority of them is up, nothing else happens
    otherwise etcd begins anew with one member, out of what one control plane that is left has; all others leave it
    what that one has not heard of is lost
    ----- stderr -----
    error[MK_USAGE]: there is no terminal to ask on whether that is to be done
    hint: give --yes to do it
    ");
    let file = below(&home, "etcd.snapshot");
    std::fs::write(&file, "").unwrap();
    assert_snapshot!(home.run(["-p", "demo", "etcd", "snapshot", "restore", &file]), @"
    status: 14
    ----- stdout -----
    cluster demo will hold what [HOME]/etcd.snapshot has; all that was written since is lost
    its API does not answer meanwhile, its pods run on
    one control plane begins anew, the others join it again
    ----- stderr -----
    error[MK_USAGE]: there is no terminal to ask on whether that is to be done
    hint: give --yes to do it
    ");
    let missing = home.run(["-p", "demo", "recover", "--from", &below(&home, "nothing")]);
    assert_eq!(missing.status, 30, "{missing}");
}

#[test]
fn where_no_control_plane_is_left_there_is_nothing_to_begin_from() {
    let spec = "- {name: demo, role: control-plane}\n- {name: m02, role: control-plane}\n";
    let Some(home) = home_with(spec, &["demo", "m02"]) else { return };
    let file = below(&home, "etcd.snapshot");
    std::fs::write(&file, "").unwrap();
    let told = "\
error[GUEST_NO_SURVIVOR]: no control plane of cluster demo is left that has its data and keys
hint: without its keys it cannot be brought back: `flotilla delete -p demo`, then `start`
";
    for command in [&["recover"][..], &["recover", "--from", &file], &["etcd", "snapshot", "restore", &file]]
    {
        let ran = home.run(["-p", "demo"].iter().chain(command).chain(&["--yes"]));
        assert_eq!((ran.status, ran.stderr.as_str()), (85, told), "{command:?} {ran}");
    }
}
