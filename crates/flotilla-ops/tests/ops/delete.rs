use flotilla_core::Changed;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::delete::{self, Request};

use crate::world::{World, demo, killed_anywhere};

fn request() -> Request {
    Request { cluster: demo(), busy: WhenBusy::Wait }
}

#[tokio::test]
async fn nothing_is_left_of_a_deleted_cluster() {
    let world = World::running(&["control-plane", "worker"]).await;
    assert_eq!(delete::run(&world.context(), &request()).await.unwrap().changed, Changed::Yes);
    let found = world.found().await;
    assert!(found.machines.is_empty() && found.cluster.is_none() && found.current.is_none(), "{found:?}");
    assert_eq!(world.store.names().unwrap(), []);
    assert_eq!(delete::run(&world.context(), &request()).await.unwrap().changed, Changed::No);
    assert_eq!(world.store.names().unwrap(), [], "the lock is not left behind");
}

#[tokio::test]
async fn a_damaged_cluster_is_deleted() {
    let world = World::running(&["control-plane"]).await;
    std::fs::write(world.store.folder(&demo()).join("state.json"), "{").unwrap();
    assert_eq!(delete::all(&world.context()).await.unwrap(), [demo()]);
    assert_eq!(delete::run(&world.context(), &request()).await.unwrap().changed, Changed::Yes);
    assert_eq!(world.store.names().unwrap(), []);
}

#[tokio::test]
async fn refusals_touch_nothing() {
    let mut world = World::running(&["control-plane"]).await;
    let _held = world.context().lock(&demo(), "another", WhenBusy::Fail).unwrap();
    let busy = Request { busy: WhenBusy::Fail, ..request() };
    assert_eq!(delete::run(&world.context(), &busy).await.unwrap_err().code().name, "CLUSTER_BUSY");
    world.is_root = false;
    assert_eq!(delete::run(&world.context(), &request()).await.unwrap_err().code().name, "HOST_PERMISSION");
    assert_eq!(world.host.calls.log(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_it_goes_on() {
    killed_anywhere(
        async || World::running(&["control-plane", "worker"]).await,
        async |cx| delete::run(cx, &request()).await,
    )
    .await;
}
