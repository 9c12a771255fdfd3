use flotilla_core::{Changed, Power};
use flotilla_engine::store::WhenBusy;
use flotilla_ops::stop::{self, Request};
use flotilla_spec::WantedPower;

use crate::world::{World, demo, killed_anywhere};

fn request() -> Request {
    Request { cluster: demo(), keep_context: false, busy: WhenBusy::Wait }
}

#[tokio::test]
async fn a_cluster_is_stopped_once() {
    let world = World::running(&["control-plane", "worker"]).await;
    let stopped = stop::run(&world.context(), &request()).await.unwrap();
    assert_eq!(stopped.changed, Changed::Yes);
    let found = world.found().await;
    assert!(found.machines.values().all(|machine| machine.power == Power::Off), "{found:?}");
    assert!(found.cluster.unwrap().spec.nodes.iter().all(|node| node.power == WantedPower::Stopped));
    assert_eq!(found.current, None);
    assert_eq!(stop::run(&world.context(), &request()).await.unwrap().changed, Changed::No);
}

#[tokio::test]
async fn the_context_stays_if_asked_for() {
    let world = World::running(&["control-plane"]).await;
    stop::run(&world.context(), &Request { keep_context: true, ..request() }).await.unwrap();
    assert_eq!(world.found().await.current, Some(demo()));
}

#[tokio::test]
async fn refusals_touch_nothing() {
    let mut world = World::running(&["control-plane"]).await;
    let absent = Request { cluster: "absent".parse().unwrap(), ..request() };
    let error = stop::run(&world.context(), &absent).await.unwrap_err();
    assert_eq!(
        (error.code().name, error.to_string().as_str()),
        ("GUEST_NO_CLUSTER", "cluster absent does not exist")
    );
    let _held = world.context().lock(&demo(), "another", WhenBusy::Fail).unwrap();
    let busy = Request { busy: WhenBusy::Fail, ..request() };
    assert_eq!(stop::run(&world.context(), &busy).await.unwrap_err().code().name, "CLUSTER_BUSY");
    world.is_root = false;
    assert_eq!(stop::run(&world.context(), &request()).await.unwrap_err().code().name, "HOST_PERMISSION");
    assert_eq!(world.host.calls.log(), [""; 0]);
    assert_eq!(world.store.names().unwrap(), [demo()]);
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_it_goes_on() {
    killed_anywhere(
        async || World::running(&["control-plane", "worker"]).await,
        async |cx| stop::run(cx, &request()).await,
    )
    .await;
}
