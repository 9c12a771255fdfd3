//! The user's kubeconfig: it may be broken, and somebody else may have the cluster's name in it.

use std::time::Duration;

use flotilla_core::Event;
use flotilla_core::{Changed, Drain};

use crate::world::{World, with_control_planes, with_worker};

/// Notes and warnings.
fn said(world: &World) -> Vec<String> {
    let text = |event| match event {
        Event::Note { text } => Some(format!("note: {text}")),
        Event::Warning { text } => Some(format!("warning: {text}")),
        _ => None,
    };
    world.take_events().into_iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_broken_one_stops_nothing() {
    let world = World::of(with_worker());
    world.kubeconfig.break_it();
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    let warning = "warning: cannot add cluster demo to your kubeconfig: it is broken; fix it, then run `flotilla update-context`";
    assert_eq!(said(&world), [warning]);

    assert_eq!(world.start().await.unwrap(), Changed::No, "the cluster runs already");
    assert_eq!(said(&world), [warning]);

    let drain = Drain { limit: Duration::from_secs(30), force: false };
    let mut cluster = world.cluster.clone();
    world
        .engine()
        .delete_nodes(&world.locked(), &mut cluster, &["demo-m02".parse().unwrap()], drain)
        .await
        .unwrap();
    assert!(said(&world).is_empty());

    assert_eq!(world.stop().await.unwrap(), Changed::Yes);
    assert_eq!(
        said(&world),
        ["warning: cannot read your kubeconfig: it is broken; if demo is its current context, it is kept"]
    );

    assert_eq!(world.delete().await.unwrap(), Changed::Yes);
    assert_eq!(
        said(&world),
        [
            "warning: cannot remove cluster demo from your kubeconfig: it is broken; remove cluster, user and context demo from it \
             by hand"
        ]
    );
    assert!(!world.found().await.saved);
}

/// As it is with a host whose network this process is no part of.
#[tokio::test(start_paused = true)]
async fn the_server_is_where_the_network_leads() {
    let world = World::running().await;
    assert_eq!(world.kubeconfig.server(world.name()).as_deref(), Some("https://10.213.0.254:6443"));
    world.host.network.forward("127.0.0.1:40001".parse().unwrap());
    assert_eq!(world.start().await.unwrap(), Changed::Yes, "the old address leads nowhere");
    assert_eq!(world.kubeconfig.server(world.name()).as_deref(), Some("https://127.0.0.1:40001"));
    assert_eq!(world.start().await.unwrap(), Changed::No);
}

#[tokio::test(start_paused = true)]
async fn a_broken_one_does_not_keep_a_control_plane_from_leaving() {
    let world = World::running_of(with_control_planes()).await;
    world.kubeconfig.break_it();
    let drain = Drain { limit: Duration::from_secs(30), force: false };
    let mut cluster = world.cluster.clone();
    world
        .engine()
        .delete_nodes(&world.locked(), &mut cluster, &["demo-m02".parse().unwrap()], drain)
        .await
        .unwrap();
    assert_eq!(said(&world).len(), 1, "that its credentials may still be in it is reported");
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_entry_is_reported_and_left() {
    let world = World::of(with_worker());
    world.kubeconfig.take(world.name());
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert!(
        said(&world)[0]
            .starts_with("warning: cannot add cluster demo to your kubeconfig: somebody else has demo; ")
    );
    assert!(world.kubeconfig.known().is_empty());
    assert_eq!(world.delete().await.unwrap(), Changed::Yes);
    assert_eq!(said(&world), ["note: somebody else has demo: left unchanged"]);
}
