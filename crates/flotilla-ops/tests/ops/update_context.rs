use flotilla_core::{Changed, Kubeconfig};
use flotilla_ops::update_context::{self, Request, Updated};
use flotilla_ops::{Context, OpError};

use crate::world::{World, demo, killed_anywhere};

async fn update(cx: &Context<'_>) -> Result<Updated, OpError> {
    update_context::run(cx, &Request { cluster: demo() }).await
}

#[tokio::test]
async fn the_cluster_becomes_the_current_context_once() {
    let world = World::running(&["control-plane"]).await;
    world.host.kubeconfig.unset_context(&demo()).unwrap();
    assert_eq!(update(&world.context()).await.unwrap().changed, Changed::Yes);
    assert_eq!(world.host.kubeconfig.current(), Some(demo()));
    let again = update(&world.context()).await.unwrap();
    let json = r#"{"cluster":"demo","changed":false,"kubeconfig":"/home/.kube/config","server":"https://10.213.0.254:6443"}"#;
    assert_eq!(serde_json::to_string(&again).unwrap(), json);
}

#[tokio::test]
async fn another_control_plane_has_the_credentials_as_well() {
    let world = World::running(&["control-plane", "control-plane", "control-plane"]).await;
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    assert!(update(&world.context()).await.is_ok());
    for node in ["demo-m02", "demo-m03"] {
        world.host.driver.lose_power(&demo(), &node.parse().unwrap());
    }
    assert_eq!(update(&world.context()).await.unwrap_err().to_string(), "cluster demo is stopped");
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused() {
    let world = World::running(&["control-plane"]).await;
    world.host.kubeconfig.take(&demo());
    let error = update(&world.context()).await.unwrap_err();
    assert_eq!(error.code().name, "HOST_KUBECONFIG");
    assert_eq!(error.chain().join(": "), "cannot change the kubeconfig: somebody else has demo");
}

#[tokio::test]
async fn killed_at_any_call_it_goes_on() {
    let world = async || World::running(&["control-plane"]).await;
    killed_anywhere(world, update).await;
}
