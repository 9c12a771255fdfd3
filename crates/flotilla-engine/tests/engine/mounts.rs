//! Nodes with mounts over what they own, which earlier releases accepted.

use flotilla_core::{Changed, Explain, Power};
use flotilla_engine::EngineError;

use crate::world::{World, wait, with_worker};

/// A cluster whose worker mounts a directory of the host over the certificates that clean-up deletes.
fn conflicting() -> World {
    let mut cluster = with_worker();
    cluster.spec.nodes[1].mounts = vec!["/home/ada/my-ca:/etc/kubernetes/pki".parse().unwrap()];
    World::of(cluster)
}

#[tokio::test]
async fn a_node_with_such_a_mount_is_not_booted_and_nothing_else_is_begun() {
    let world = conflicting();
    let error = world.start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot boot node demo-m02: its mount /home/ada/my-ca:/etc/kubernetes/pki conflicts with /etc/kubernetes, which the \
         node owns"
    );
    assert_eq!((error.code().name, error.code().exit_status), ("HOST_NO_MOUNT", 35));
    assert_eq!(
        error.hints(),
        [
            "the node would delete files in /home/ada/my-ca: remove the mount with `flotilla node update demo-m02 --mount \
          /etc/kubernetes/pki- -p demo`, or from the file that you apply"
        ]
    );
    assert_eq!(world.take_events(), [], "no step was begun");
    let error = world.engine().plan_start(&world.cluster, &wait().conditions).await.unwrap_err();
    assert!(matches!(error, EngineError::MountOver { .. }), "{error:?}");
    let node = world.cluster.nodes().nth(1).unwrap();
    assert!(matches!(world.engine().boot(&world.cluster, &node).await, Err(EngineError::MountOver { .. })));
    assert!(world.found().await.machines.values().all(|state| state.power != Power::On));
}

#[tokio::test]
async fn a_cluster_with_such_a_mount_is_read_stopped_and_deleted() {
    let mut world = World::running_of(with_worker()).await;
    world.cluster = conflicting().cluster;
    world.save(&world.cluster).unwrap();
    assert_eq!(world.store.load(world.name()).unwrap().unwrap().spec, world.cluster.spec);
    // What runs is not booted.
    assert_eq!(world.start().await.unwrap(), Changed::No);
    assert_eq!(world.stop().await.unwrap(), Changed::Yes);
    assert!(world.start().await.is_err());
    assert_eq!(world.delete().await.unwrap(), Changed::Yes);
}
