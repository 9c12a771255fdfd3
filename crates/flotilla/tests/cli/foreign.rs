//! Command lines and files of other tools. All rows of the table have tests beside it.

use std::fs;

use insta::assert_snapshot;

use super::home;

#[test]
fn a_command_of_another_tool_is_answered_with_ours() {
    let home = home();
    assert_snapshot!(home.run(["create", "cluster", "--name", "demo"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: flotilla has no `create cluster --name`
    hint: type `flotilla start -p demo`
    ");
    assert_snapshot!(home.run(["start", "--nodes", "3", "--addons", "ingress"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: flotilla has no `start --addons`: an add-on is a manifest that you apply
    hint: type `flotilla kubectl -- apply -f ingress.yaml`
    ");
    assert_snapshot!(home.run(["node", "create", "batch", "--role", "agent"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: flotilla has no `node create batch --role`: an agent is a worker, a server is a control plane
    hint: type `flotilla node add batch`
    hint: type `flotilla node add db --control-plane`
    ");
    assert_snapshot!(home.run(["start", "--gpus", "all"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: flotilla has no `start --gpus`: it does not give GPUs to nodes yet; leave the flag out
    ");
    assert!(home.files().is_empty());
}

/// A command without the name would be about another cluster.
#[test]
fn an_answer_is_about_the_cluster_that_was_typed() {
    let home = home();
    assert_snapshot!(home.run(["-p", "demo", "down"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: flotilla has no `down`
    hint: type `flotilla stop -p demo`
    hint: type `flotilla delete -p demo`
    ");
    assert_snapshot!(home.run(["delete", "-p", "demo", "--purge"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: flotilla has no `delete --purge`: `delete` leaves nothing of a cluster behind; bundles are removed apart
    hint: type `flotilla delete -p demo`
    hint: type `flotilla bundle remove v1.37.1`
    ");
}

#[test]
fn scripts_that_ask_for_json_get_the_answer_as_an_event() {
    let ran = home().run(["stop", "-p", "demo", "--schedule", "5m", "-o", "json"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (14, ""), "{ran}");
    let data = &ran.events()[0]["data"];
    assert_eq!(data["name"], "MK_USAGE");
    assert_eq!(data["message"], "flotilla has no `stop --schedule`: it runs nothing in the background");
    assert_eq!(data["advice"], "type `sleep 5m && flotilla stop -p demo`");
}

#[test]
fn words_that_only_resemble_ours_are_not_suggested() {
    let home = home();
    for typed in [&["remoev"][..], &["restrat"], &["start", "--gpu", "1"], &["node", "ad-m02"]] {
        let ran = home.run(typed);
        assert_eq!(ran.status, 14, "{ran}");
        assert!(!ran.stderr.contains("similar"), "{ran}");
    }
    assert_snapshot!(home.run(["remoev"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unrecognized subcommand 'remoev'

    Usage: flotilla [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(home.run(["start", "--gpu", "1"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unexpected argument '--gpu' found

    For more information, try '--help'.
    ");
    let ran = home.run(["node", "delete", "m02", "--now"]);
    assert!(!ran.stderr.contains("tip"), "{ran}");
    assert!(home.run(["--nodes", "3", "start"]).stderr.contains("'start --nodes' exists"));
    assert!(home.run(["satrt"]).stderr.contains("'start'"));
    assert!(home.run(["start", "--ndoes", "3"]).stderr.contains("'--nodes'"));
}

#[test]
fn a_config_of_kind_is_printed_as_a_cluster_file() {
    let home = home();
    let config = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n- role: worker\n\
                  - role: worker\n  image: kindest/node:v1.36.4\n";
    fs::write(home.path().join("kind.yaml"), config).unwrap();
    for command in ["apply", "diff"] {
        assert_eq!(home.run([command, "-f", "kind.yaml"]).status, 18, "{command}");
    }
    assert_snapshot!(home.run(["start", "-f", "kind.yaml"]), @"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFIG]: kind.yaml is a config file of kind, not a cluster file of flotilla
    hint: save this as cluster.yaml, then type `flotilla start -f cluster.yaml` (see docs/start/from-kind.md):

    # left out: nodes[].image: nodes are created from bundles; choose one with kubernetesVersion
    apiVersion: flotilla.dev/v1
    kind: Cluster
    name: kind
    nodes:
    - role: control-plane
    - role: worker
      count: 2
    ");
    assert_eq!(home.files(), ["kind.yaml"]);
}
