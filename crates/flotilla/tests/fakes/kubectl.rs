//! The bundle's kubectl takes our place, with the cluster's own kubeconfig.

use super::world::World;

#[test]
fn kubectl_gets_our_arguments_and_a_kubeconfig_of_this_cluster_alone() {
    let world = World::after(&["start"]);
    let ran = world.run("kubectl get nodes -o wide");
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""), "{ran}");
    insta::assert_snapshot!(world.host.calls.take().join("\n"), @"
    find
    KUBECONFIG=/home/.flotilla/clusters/flotilla/kubeconfig KUBECACHEDIR=/home/.flotilla/clusters/flotilla/kubectl-cache /home/.flotilla/bundles/sha256-of-v1.37.1/bin/kubectl get nodes -o wide
    ");
}

#[test]
fn a_stopped_cluster_has_no_kubectl() {
    let world = World::after(&["start", "stop"]);
    let ran = world.run("kubectl get nodes");
    assert_eq!(ran.code(), "GUEST_NOT_RUNNING", "{ran}");
    assert_eq!(world.host.calls.take(), ["find"], "nothing takes our place");
}
