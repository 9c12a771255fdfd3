use flotilla_core::{Bootstrapper, Kubeconfig, Unresponsive};
use flotilla_ops::OpError;
use flotilla_ops::status::{self, ApiServer, ClusterStatus, KubeconfigProblem, Request};

use crate::world::{World, demo};

async fn see(world: &World, node: Option<&str>) -> Result<ClusterStatus, OpError> {
    let request = Request { cluster: demo(), node: node.map(str::to_owned) };
    status::run(&world.context(), &request).await
}

/// Each node in a few words.
fn reported(seen: &ClusterStatus) -> Vec<String> {
    let line = |it: &status::NodeStatus| {
        let api =
            it.control_plane.map(|it| format!(" api {:?} configured {:?}", it.api_server, it.is_configured));
        let name = &it.node.spec.name;
        format!("{name} runs {} kubelet {}{}", it.is_running(), it.health.kubelet, api.unwrap_or_default())
    };
    seen.nodes.iter().map(line).collect()
}

#[tokio::test]
async fn every_node_says_what_runs_in_it() {
    let world = World::running(&["control-plane", "worker"]).await;
    let seen = see(&world, None).await.unwrap();
    assert_eq!(
        reported(&seen),
        ["demo runs true kubelet true api Running configured Some(true)", "demo-m02 runs true kubelet true"]
    );
    assert_eq!((seen.kubeconfig_problem.clone(), seen.etcd.unwrap().quorum().up), (None, 1));
    assert!(seen.nodes[0].is_primary && seen.nodes[0].health.holds_virtual_ip);
    assert_eq!(reported(&see(&world, Some("m02")).await.unwrap()), ["demo-m02 runs true kubelet true"]);
    assert_eq!(see(&world, Some("m09")).await.unwrap_err().code().name, "GUEST_NODE_NOT_FOUND");
    assert!(!world.host.calls.log().iter().any(|call| call.starts_with("ensure")), "it only reads");
}

#[tokio::test]
async fn a_node_that_ended_or_is_frozen_is_seen() {
    let world = World::running(&["control-plane", "worker"]).await;
    world.host.driver.lose_power(&demo(), &"demo-m02".parse().unwrap());
    world.host.bootstrapper.freeze(&"demo".parse().unwrap());
    let seen = see(&world, None).await.unwrap();
    assert!(seen.nodes[1].has_ended() && !seen.nodes[0].has_ended());
    assert_eq!(seen.nodes[0].health.unresponsive, Some(Unresponsive::Frozen));
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    let seen = see(&world, None).await.unwrap();
    assert_eq!(reported(&seen)[0], "demo runs false kubelet false api Stopped configured None");
    assert_eq!(seen.etcd, None, "the only member is not waited for");
}

#[tokio::test]
async fn a_paused_cluster_is_paused() {
    let world = World::running(&["control-plane"]).await;
    let machine = world.machine("demo").await;
    world.host.bootstrapper.pause(machine.as_ref(), None).await.unwrap();
    let seen = see(&world, None).await.unwrap();
    assert_eq!(seen.nodes[0].control_plane.unwrap().api_server, ApiServer::Paused);
}

#[tokio::test]
async fn a_kubeconfig_that_does_not_lead_to_the_cluster_is_reported_with_the_reason() {
    let world = World::running(&["control-plane"]).await;
    world.host.kubeconfig.remove(&demo(), &[]).unwrap();
    let problem = async || see(&world, None).await.unwrap().kubeconfig_problem.unwrap();
    assert_eq!(problem().await, KubeconfigProblem::LeadsElsewhere("/home/.kube/config".into()));
    world.host.kubeconfig.take(&demo());
    let taken = "/home/.kube/config has a context demo that this cluster did not write";
    assert_eq!(problem().await, KubeconfigProblem::Refused(taken.to_owned()));
}

#[tokio::test]
async fn a_cluster_without_a_majority_says_so() {
    let world = World::running(&["control-plane"; 3]).await;
    for node in ["demo-m02", "demo-m03"] {
        world.host.bootstrapper.set_up(&demo(), &node.parse().unwrap(), false);
    }
    let etcd = see(&world, None).await.unwrap().etcd.unwrap();
    assert!(!etcd.quorum().holds());
    let mut refused = world;
    refused.is_root = false;
    assert_eq!(see(&refused, None).await.unwrap_err().code().name, "HOST_PERMISSION");
}
