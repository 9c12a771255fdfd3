//! Disks of control planes that were lost or cannot be read.

use flotilla_core::explain::Explain;
use flotilla_core::{Driver, MachineId, MachineRecord, Membership};
use flotilla_spec::NodeName;

use crate::world::{World, of_nodes, reported, wait, with_control_planes, with_worker};

#[tokio::test]
async fn a_lost_control_plane_is_not_replaced_by_an_empty_one() {
    let world = World::running_of(with_worker()).await;
    for worker_is_on in [true, false] {
        if !worker_is_on {
            world.stop().await.unwrap();
        }
        world.driver.remove(&MachineId::new(world.name(), world.node())).await.unwrap();
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
        let reported = world.engine().plan_start(&world.cluster, &[].into()).await.unwrap_err();
        assert_eq!(reported.to_string(), error.to_string(), "a dry run says the same");
        assert!(world.calls.take().iter().all(|call| !call.starts_with("ensure")), "nothing is changed");
    }
}

#[tokio::test]
async fn a_cluster_of_one_node_that_has_run_is_not_replaced_by_an_empty_one() {
    let mut world = World::running().await;
    world.stop().await.unwrap();
    world.driver.remove(&MachineId::new(world.name(), world.node())).await.unwrap();
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
    world.driver.remove(&MachineId::new(world.name(), world.node())).await.unwrap();
    world.calls.take();
    world.start().await.unwrap();
    assert!(world.calls.take().contains(&"start-api demo-m02".to_owned()), "a member that is left begins");
}

const DATA: &str = "/var/lib/etcd/member";

/// Takes etcd's data from the disk of a machine that is off, and leaves all else.
async fn empty(world: &World, node: &NodeName) {
    world.stop().await.unwrap();
    world.driver.machine(world.name(), node).lose_file(DATA);
    world.calls.take();
    world.take_events();
}

#[tokio::test]
async fn a_control_plane_without_its_data_is_not_booted_to_begin_an_empty_cluster() {
    for cluster in [of_nodes(&["control-plane"]), with_worker()] {
        let mut world = World::running_of(cluster).await;
        empty(&world, &world.node().clone()).await;
        // Its record is enough, also if nothing else says that the cluster has run.
        world.cluster.allocations.founded = false;
        let error = world.start().await.unwrap_err();
        assert_eq!(error.code().name, "GUEST_CONTROL_PLANE_LOST");
        assert!(
            error.to_string().starts_with(
                "cluster demo has lost its control plane: etcd has no data on the disk of demo, but "
            ),
            "{error}"
        );
        let hints = error.hints();
        assert!(
            hints[0].contains("var/lib/etcd.before-N") && hints[0].contains("run it again"),
            "{hints:#?}"
        );
        let calls = world.calls.take();
        assert!(!calls.iter().any(|call| call.starts_with("ensure demo")), "{calls:?}");
        assert_eq!(world.driver.etcd_revisions(world.name()), [].into());
        let start = world.engine().start_nodes(&world.locked(), &world.cluster, &[], &wait()).await;
        assert_eq!(start.unwrap_err().code().name, "GUEST_CONTROL_PLANE_LOST");
    }
}

#[tokio::test]
async fn a_disk_that_the_host_cannot_reach_is_not_taken_for_an_empty_one() {
    let world = World::running().await;
    world.driver.machine(world.name(), world.node()).hide_disk();
    world.stop().await.unwrap();
    world.start().await.unwrap();
}

#[tokio::test]
async fn one_of_several_that_lost_its_data_leaves_etcd_before_its_machine_boots() {
    let world = World::running_of(with_control_planes()).await;
    let whole = world.found().await;
    empty(&world, &world.node().clone()).await;
    world.start().await.unwrap();
    let plan = reported(&world.take_events()).remove(0);
    insta::assert_snapshot!(plan, @"plan machine/demo-m02 machine/demo-m03 machine/demo-m04 api/demo-m02 complete leave-control-plane/demo machine/demo join/demo join/demo-m03 join/demo-m04 kubeconfig wait");
    let calls = world.calls.take();
    let place = |call: &str| {
        calls.iter().position(|known| known == call).unwrap_or_else(|| panic!("{call}: {calls:?}"))
    };
    assert!(place("start-api demo-m02") < place("leave demo by demo-m02"), "{calls:?}");
    assert!(place("leave demo by demo-m02") < place("ensure demo"), "{calls:?}");
    assert!(place("ensure demo") < place("join demo"), "{calls:?}");
    assert_eq!(world.found().await, whole);
    assert_eq!(world.driver.etcd_revisions(world.name()).len(), 3);
}

#[tokio::test]
async fn a_machine_whose_record_cannot_be_read_is_not_taken_for_one_without_a_cluster() {
    let world = World::running_of(with_worker()).await;
    world.driver.break_record(world.name(), world.node());
    world.calls.take();
    let error = world.start().await.unwrap_err();
    assert_eq!(error.to_string(), "the record of node demo is damaged");
    assert_eq!((error.code().name, error.hints()), ("HOST_STATE_DAMAGED", vec!["write it again".to_owned()]));
    assert!(!world.calls.take().iter().any(|call| call.starts_with("start-api")));
}

#[tokio::test]
async fn only_data_of_a_cluster_that_has_answered_makes_an_initial_member() {
    let world = World::running_of(with_control_planes()).await;
    let machines = world.engine().machines(&world.cluster).await.unwrap();
    for (membership, holds_data, has_joined) in [
        (Membership::None, false, false),
        (Membership::Founding, false, false),
        (Membership::InitialMember, true, false),
        (Membership::Member, true, true),
    ] {
        machines[world.node()].set_record(&MachineRecord { membership }).await.unwrap();
        let seen = world.engine().observe(&world.cluster).await.unwrap();
        assert_eq!(seen.initial_members.contains(world.node()), holds_data, "{membership:?}");
        assert_eq!(seen.joined.contains(world.node()), has_joined, "{membership:?}");
    }
}
