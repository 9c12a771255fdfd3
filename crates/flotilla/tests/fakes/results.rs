//! How commands that change something say that they are done: a verb, a kind and a name.

use insta::assert_snapshot;

use super::coverage::{CASES, Kind, prepared};
use super::world::World;

/// The lines of a result, without `start`'s steps before them and the commands that it proposes.
fn result(stdout: &str) -> String {
    let lines = stdout.split("\n\n").next().unwrap_or_default().lines();
    let is_step = |line: &&str| line.starts_with('[') || line.contains(" steps, about ");
    lines.filter(|line| !is_step(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_result_names_what_was_done_to_what() {
    let results = CASES.iter().filter(|case| case.kind == Kind::Changes).map(|case| {
        let ran = prepared(case).run(case.line);
        format!("{}\n  {}", case.line, result(&ran.stdout).replace('\n', "\n  "))
    });
    assert_snapshot!(results.collect::<Vec<_>>().join("\n"), @r#"
    start --control-planes 3 --nodes 4
      cluster flotilla is up: Kubernetes v1.37.1 at https://10.213.0.254:6443
    start
      cluster flotilla is up: Kubernetes v1.37.1 at https://10.213.0.254:6443
    apply -f HOME/cluster.yaml --yes
      + node flotilla-extra: worker
      applied HOME/cluster.yaml to cluster flotilla
    stop
      stopped cluster flotilla; `flotilla start` starts it again with its data
    delete
      deleted cluster flotilla
    pause
      paused cluster flotilla: 2 containers in kube-system, kubernetes-dashboard, istio-operator
    unpause
      unpaused cluster flotilla: 1 container in kube-system, kubernetes-dashboard, istio-operator
    node add extra
      added node extra to cluster flotilla
    node add extra --control-plane
      added node extra to cluster flotilla
    node start m02
      started node flotilla-m02
    node stop m02
      stopped node flotilla-m02
    node stop m02
      stopped node flotilla-m02
    node delete m02
      deleted node flotilla-m02
    node delete m02
      deleted node flotilla-m02
    node update m02 --labels a=b --memory 3g --yes
      ~ node flotilla-m02: memory no-limit -> 3Gi (restarts the node)
      ~ node flotilla-m02: labels (none) -> a=b
      updated node flotilla-m02
    node pause m02
      paused node flotilla-m02: 1 container in kube-system, kubernetes-dashboard, istio-operator
    node unpause m02
      unpaused node flotilla-m02: 1 container in kube-system, kubernetes-dashboard, istio-operator
    node cp HOME/same.yaml m02:/tmp/x
      copied 1 file to flotilla-m02:/tmp/x
    cp HOME/same.yaml m02:/tmp/x
      copied 1 file to flotilla-m02:/tmp/x
    etcd snapshot save HOME/new.snap
      saved etcd of cluster flotilla to HOME/new.snap (7 keys)
    etcd snapshot restore HOME/old.snap --yes
      restores etcd of cluster flotilla from HOME/old.snap: everything written since is lost
      the API does not answer meanwhile, pods keep running; the old data is kept on the nodes' disks
      one control plane starts from the snapshot, the others join it again
      restored etcd of cluster flotilla from HOME/old.snap (7 keys)
    recover --yes
      control planes of cluster flotilla: flotilla, flotilla-m02, flotilla-m03
      starts those that exist; if a majority of them answer or have their data, nothing else is changed
      otherwise recreates etcd with one member from the newest data of a control plane and removes the others from it
      writes that this member has not received are lost; old data is kept on the nodes' disks
      recovered etcd of cluster flotilla (7 keys)
    update-context
      No changes required for the "flotilla" context, which points to 10.213.0.254:6443 in /home/.kube/config
    bundle build --kubernetes-version v1.36.4
      built bundle sha256-of-v1 for Kubernetes v1.36.4 (900 bytes)
    bundle clean
      freed 1.0 MB
    bundle remove v1.36.4
      removed bundle sha256-of-v1
    bundle export v1.36.4 HOME/new.bundle
      exported bundle sha256:sha256-of-v1.36.4 to HOME/new.bundle
      import it with: flotilla bundle import HOME/new.bundle --digest sha256-of-v1.36.4
    bundle import HOME/old.bundle
      imported bundle sha256-of-v1 for Kubernetes v1.36.4
    "#);
}

#[test]
fn what_is_so_already_is_said_like_that() {
    let world = World::after(&["start --nodes 2"]);
    let results = [
        "node start m02",
        "node update m02 --labels a=b",
        "node update m02 --labels a=b",
        "stop",
        "stop",
        "node stop m02",
    ]
    .map(|line| result(&world.run(line).stdout).clone());
    assert_snapshot!(results.join("\n"), @"
    node flotilla-m02 is already running
    ~ node flotilla-m02: labels (none) -> a=b
    updated node flotilla-m02
    node flotilla-m02 already has these settings: nothing to do
    stopped cluster flotilla; `flotilla start` starts it again with its data
    cluster flotilla is already stopped
    node flotilla-m02 is already stopped
    ");
}
