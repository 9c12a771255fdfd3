//! Certificates that have expired.

use flotilla_core::Certificate;
use flotilla_core::explain::Explain;

use crate::world::{World, reported, with_control_planes, with_worker};

fn expired(is_authority: bool) -> Certificate {
    let expires = "2025-01-01T00:00:00Z".parse().unwrap();
    Certificate { name: if is_authority { "ca" } else { "apiserver" }, expires, is_authority }
}

#[tokio::test]
async fn expired_certificates_are_renewed_before_the_api_starts_and_the_kubeconfig_is_written_again() {
    let world = World::running_of(with_control_planes()).await;
    world.stop().await.unwrap();
    for node in &world.cluster.spec.nodes {
        world.bootstrapper.set_certificate(&node.name, expired(false));
    }
    world.calls.take();
    world.start().await.unwrap();
    let calls = world.calls.take();
    let at =
        |call: &str| calls.iter().position(|it| it == call).unwrap_or_else(|| panic!("{call}: {calls:#?}"));
    let renewed = at("renew demo,demo-m02,demo-m03,demo-m04 by demo,demo-m02,demo-m03");
    assert!(at("ensure demo-m04") < renewed && renewed < at("start-api demo"));
    assert!(at("start-api demo") < at("kubeconfig put"));
    assert!(!world.start().await.unwrap().is_yes(), "nothing is left to be done");
}

#[tokio::test]
async fn a_workers_certificate_is_renewed_while_the_control_plane_runs_on() {
    let world = World::running_of(with_worker()).await;
    world.bootstrapper.set_certificate(&"demo-m02".parse().unwrap(), expired(false));
    world.start().await.unwrap();
    let calls = world.calls.take();
    assert!(calls.contains(&"renew demo-m02 by demo".to_owned()), "{calls:#?}");
    assert!(
        !calls.iter().any(|call| call.starts_with("start-api") || call == "kubeconfig put"),
        "{calls:#?}"
    );
}

#[tokio::test]
async fn a_running_control_plane_is_renewed_and_has_to_answer_again() {
    let world = World::running().await;
    world.bootstrapper.set_certificate(world.node(), expired(false));
    world.start().await.unwrap();
    assert_eq!(reported(&world.take_events())[0], "plan certificates api/demo complete kubeconfig wait",);
}

#[tokio::test]
async fn a_cluster_whose_authority_has_expired_is_told_and_not_started() {
    let world = World::running_of(with_worker()).await;
    world.stop().await.unwrap();
    world.bootstrapper.set_certificate(world.node(), expired(true));
    world.calls.take();
    let error = world.start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the certificate authority ca of cluster demo (on node demo) expired on 2025-01-01"
    );
    assert_eq!(error.code().name, "GUEST_CA_EXPIRED");
    assert!(world.calls.take().iter().all(|call| !call.starts_with("ensure")));
}
