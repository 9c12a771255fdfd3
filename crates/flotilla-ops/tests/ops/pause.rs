use flotilla_core::Bootstrapper;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::pause::{self, Change, Request};

use crate::world::{World, demo, killed_anywhere, refused};

const PAUSE: Change = Change::Pause { force: false };

fn request(node: Option<&str>, change: Change) -> Request {
    let node = node.map(str::to_owned);
    Request { cluster: demo(), node, namespaces: None, change, busy: WhenBusy::Wait }
}

async fn paused(world: &World) -> Vec<String> {
    let mut paused = Vec::new();
    for (name, machine) in world.machines().await {
        if world.host.bootstrapper.is_paused(machine.as_ref()).await {
            paused.push(name.to_string());
        }
    }
    paused
}

#[tokio::test]
async fn a_cluster_or_one_node_is_paused_and_unpaused() {
    let world = World::running(&["control-plane", "worker"]).await;
    pause::run(&world.context(), &request(Some("m02"), PAUSE)).await.unwrap();
    assert_eq!(paused(&world).await, ["demo-m02"]);
    pause::run(&world.context(), &request(None, Change::Pause { force: true })).await.unwrap();
    assert_eq!(paused(&world).await, ["demo", "demo-m02"]);
    pause::run(&world.context(), &request(None, Change::Unpause)).await.unwrap();
    assert_eq!(paused(&world).await, [""; 0]);
}

#[tokio::test]
async fn what_costs_the_majority_or_cannot_be_reached_is_refused() {
    let world = World::running(&["control-plane", "control-plane", "worker"]).await;
    let run = async |request: Request| refused(&world, pause::run(&world.context(), &request).await);
    insta::assert_snapshot!(run(request(Some("demo"), PAUSE)).await, @"GUEST_QUORUM: pausing demo would lose quorum: 1 of 2 members left");
    insta::assert_snapshot!(run(request(Some("m09"), PAUSE)).await, @"GUEST_NODE_NOT_FOUND: cluster demo has no node m09");
    assert_eq!(paused(&world).await, [""; 0]);
    pause::run(&world.context(), &request(Some("demo"), Change::Pause { force: true })).await.unwrap();
    assert_eq!(paused(&world).await, ["demo"]);
    for node in ["demo", "demo-m02", "demo-m03"] {
        world.host.driver.lose_power(&demo(), &node.parse().unwrap());
    }
    insta::assert_snapshot!(run(request(None, Change::Unpause)).await, @"GUEST_NOT_RUNNING: cluster demo is stopped");
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_it_goes_on() {
    for change in [Change::Pause { force: true }, Change::Unpause] {
        killed_anywhere(
            async || {
                let world = World::running(&["control-plane", "worker"]).await;
                if change == Change::Unpause {
                    pause::run(&world.context(), &request(None, Change::Pause { force: true }))
                        .await
                        .unwrap();
                    world.forget();
                }
                world
            },
            async |cx| pause::run(cx, &request(None, change)).await,
        )
        .await;
    }
}
