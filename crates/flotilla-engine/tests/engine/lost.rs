//! Disks of control planes that were lost or cannot be read.

use flotilla_core::Driver;
use flotilla_core::explain::Explain;

use crate::world::{World, with_control_planes, with_worker};

#[tokio::test]
async fn a_lost_control_plane_is_not_replaced_by_an_empty_one() {
    let world = World::running_of(with_worker()).await;
    for worker_is_on in [true, false] {
        if !worker_is_on {
            world.stop().await.unwrap();
        }
        world.driver.remove(world.name(), world.node()).await.unwrap();
        world.calls.take();
        let error = world.start().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cluster demo has lost its control plane: the disk of demo is empty, but demo-m02 joined it before"
        );
        assert_eq!(error.code().name, "GUEST_CONTROL_PLANE_LOST");
        assert!(
            error.hints().iter().any(|hint| hint.contains("`flotilla delete -p demo`")),
            "{:#?}",
            error.hints()
        );
        let told = world.engine().plan_start(&world.cluster, &[].into()).await.unwrap_err();
        assert_eq!(told.to_string(), error.to_string(), "a dry run says the same");
        assert!(world.calls.take().iter().all(|call| !call.starts_with("ensure")), "nothing is changed");
    }
}

#[tokio::test]
async fn a_cluster_of_one_node_that_has_run_is_not_replaced_by_an_empty_one() {
    let mut world = World::running().await;
    world.stop().await.unwrap();
    world.driver.remove(world.name(), world.node()).await.unwrap();
    world.cluster.allocations.founded = true;
    world.calls.take();
    let error = world.start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cluster demo has lost its control plane: the disk of demo is empty, but it has run before"
    );
    assert!(world.calls.take().iter().all(|call| !call.starts_with("ensure")), "nothing is changed");
    // Its first `start` was killed before it had succeeded.
    world.cluster.allocations.founded = false;
    world.start().await.unwrap();
}

#[tokio::test]
async fn one_of_several_control_planes_may_be_lost() {
    let world = World::running_of(with_control_planes()).await;
    world.stop().await.unwrap();
    world.driver.remove(world.name(), world.node()).await.unwrap();
    world.calls.take();
    world.start().await.unwrap();
    assert!(world.calls.take().contains(&"start-api demo-m02".to_owned()), "a member that is left begins");
}

#[tokio::test]
async fn a_machine_whose_disk_cannot_be_read_is_not_taken_for_one_without_a_cluster() {
    let world = World::running_of(with_worker()).await;
    world.driver.break_file(world.name(), world.node(), "/etc/kubernetes/admin.conf");
    world.calls.take();
    let error = world.start().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot look for marks in node demo");
    assert!(!world.calls.take().iter().any(|call| call.starts_with("start-api")));
}
