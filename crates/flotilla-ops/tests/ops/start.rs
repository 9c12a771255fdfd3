//! `start`, `apply`, `diff`.

use std::path::PathBuf;
use std::time::Duration;

use flotilla_core::{Changed, Drain, Event};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::file::FileText;
use flotilla_ops::start::{self, GivenNetwork, Request, Sizes, Started, Typed, Wanted};
use flotilla_ops::{Context, OpError, apply};
use flotilla_spec::{ClusterSpec, Cpus};

use crate::world::{World, demo, killed_anywhere, refused};

/// `flotilla start -p demo --nodes COUNT`
fn typed(count: u32) -> Typed {
    let nodes = (1..=count).map(|number| match number {
        1 => "- {name: demo, role: control-plane}\n".to_owned(),
        number => format!("- {{name: demo-m{number:02}, role: worker}}\n"),
    });
    let head = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nkubernetesVersion: v1.37.1\nnodes:\n";
    let spec = ClusterSpec::from_yaml(&(head.to_owned() + &nodes.collect::<String>())).unwrap();
    Typed {
        spec,
        version: false,
        count: Some(count),
        control_planes: None,
        attaches: false,
        sizes: Sizes::default(),
        network: GivenNetwork::default(),
    }
}

fn request(wanted: Wanted) -> Request {
    Request { cluster: demo(), wanted, wait: Wait::for_pods(), force: false, busy: WhenBusy::Wait }
}

fn of(typed: Typed) -> Request {
    request(Wanted::Typed(Box::new(typed)))
}

fn file(body: &str) -> FileText {
    let text = format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n{body}");
    FileText { name: "demo.yaml".into(), text, directory: PathBuf::new() }
}

async fn start(cx: &Context<'_>, request: &Request) -> Result<Started, OpError> {
    start::prepare(cx, request).await?.run().await
}

fn applying(body: &str) -> apply::Request {
    let drain = Drain { limit: Duration::from_secs(30), force: false };
    apply::Request { file: file(body), drain, busy: WhenBusy::Wait }
}

/// What `apply --yes` does.
async fn apply(cx: &Context<'_>, body: &str) -> Result<Changed, OpError> {
    match apply::prepare(cx, &applying(body)).await? {
        apply::Prepared::Change(prepared) => prepared.run().await,
        apply::Prepared::New(_) => Ok(start(cx, &request(Wanted::File(file(body)))).await?.changed),
    }
}

fn texts(world: &World) -> Vec<String> {
    let text = |event| match event {
        Event::Note { text } | Event::Warning { text } => Some(text),
        _ => None,
    };
    world.host.take_events().into_iter().filter_map(text).collect()
}

const CONTROL_PLANES: &str = "nodes: [{role: control-plane, count: 3}, {}]\n";
const SMALLER: &str = "nodes: [{role: control-plane}]\n";
const LARGER: &str = "nodes: [{role: control-plane, labels: {a: b}}, {cpus: 2}, {state: stopped}]\n";

#[tokio::test(start_paused = true)]
async fn a_cluster_is_made_once_and_what_was_chosen_stays() {
    let world = World::empty();
    let started = start(&world.context(), &of(typed(2))).await.unwrap();
    assert_eq!((started.changed, started.server.as_str()), (Changed::Yes, "https://10.213.0.254:6443"));
    let first = world.found().await;
    assert_eq!(first.machines.len(), 2);
    assert!(first.cluster.as_ref().unwrap().allocations.founded);
    assert_eq!(start(&world.context(), &of(typed(2))).await.unwrap().changed, Changed::No);
    assert_eq!(world.found().await, first);
    assert_eq!(world.host.bundles.held().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let world = World::empty();
    let steps = start::plan(&world.context(), &of(typed(2))).await.unwrap();
    assert!(steps.steps.iter().any(|step| step.name == "machine/demo-m02"), "{steps:?}");
    assert_eq!(world.store.names().unwrap(), []);
    let plan = apply::plan(&world.context(), &applying(LARGER)).await.unwrap();
    assert_eq!((plan.changes.len(), world.store.names().unwrap().len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_build_is_announced_with_its_time() {
    let world = World::empty();
    world.host.bundles.lose_all();
    let (cx, request) = (world.context(), of(typed(1)));
    let prepared = start::prepare(&cx, &request).await.unwrap();
    assert_eq!(prepared.announce_build().unwrap(), Duration::from_mins(15));
    insta::assert_snapshot!(texts(&world).join("\n"), @"no bundle for v1.37.1: building Kubernetes from source once, about 15 min, 11 GB");
    prepared.run().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_change_is_refused_and_sizes_wait_for_the_next_boot() {
    let world = World::empty();
    start(&world.context(), &of(typed(2))).await.unwrap();
    world.forget();
    let cx = world.context();
    insta::assert_snapshot!(refused(&world, start(&cx, &of(typed(3))).await), @"MK_CONFLICT: cluster demo already exists with another number of nodes");
    let mut sized = typed(2);
    sized.sizes.cpus = Some(Cpus::Max);
    let started = start(&cx, &of(sized)).await.unwrap();
    assert_eq!((started.changed, started.sizes_pending.len()), (Changed::No, 2));
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_that_others_leave_no_room_for_is_refused() {
    let world = World::empty();
    let mut taken = typed(1);
    taken.spec.network.subnet = Some("10.50.0.0/24".parse().unwrap());
    taken.spec.nodes[0].ports = vec!["8080:80".parse().unwrap()];
    start(&world.context(), &of(taken.clone())).await.unwrap();
    world.forget();
    let mut other = taken;
    other.spec.name = "other".parse().unwrap();
    other.spec.kubernetes_version = "v1.99.0".parse().unwrap();
    let request = Request { cluster: "other".parse().unwrap(), ..of(other.clone()) };
    let cx = world.context();
    insta::assert_snapshot!(refused(&world, start(&cx, &request).await), @"BUNDLE_NOT_FOUND: no bundle for v1.99.0");
    other.spec.kubernetes_version = "v1.37.1".parse().unwrap();
    world.host.kubeconfig.take(&"other".parse().unwrap());
    let request = Request { cluster: "other".parse().unwrap(), ..of(other) };
    let error = start(&cx, &request).await.unwrap_err();
    insta::assert_snapshot!(error.details().join("\n"), @"
    the node subnet 10.50.0.0/24 overlaps the cluster demo
    name other is in use: /home/.kube/config already has a context other
    node name demo is used by cluster demo
    host port 8080:80 is in use: cluster demo
    ");
    assert_eq!(world.store.names().unwrap(), [demo()]);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_state_is_reported_and_left_alone() {
    let world = World::running(&["control-plane"]).await;
    let path = world.store.folder(&demo()).join("state.json");
    std::fs::write(&path, "{").unwrap();
    let cx = world.context();
    for done in [
        start(&cx, &of(typed(1))).await.map(drop),
        apply(&cx, SMALLER).await.map(drop),
        apply::diff(&cx, &file(SMALLER)).await.map(drop),
    ] {
        let error = done.unwrap_err();
        assert_eq!(error.code().name, "HOST_STATE_DAMAGED");
        assert!(!error.hints().is_empty());
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), "{");
}

#[tokio::test(start_paused = true)]
async fn a_file_makes_a_cluster_changes_it_and_then_matches_it() {
    let world = World::empty();
    for body in [SMALLER, LARGER, SMALLER, CONTROL_PLANES, SMALLER] {
        assert_eq!(apply(&world.context(), body).await.unwrap(), Changed::Yes, "{body}");
        assert_eq!(apply::diff(&world.context(), &file(body)).await.unwrap().changes, [], "{body}");
        assert_eq!(apply(&world.context(), body).await.unwrap(), Changed::No, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_asks_for_what_cannot_be_done_is_refused() {
    let world = World::empty();
    apply(&world.context(), CONTROL_PLANES).await.unwrap();
    world.forget();
    let cx = world.context();
    let fixed = format!("{CONTROL_PLANES}kubernetesVersion: v1.36.4\n");
    insta::assert_snapshot!(refused(&world, apply(&cx, &fixed).await), @"MK_CONFLICT: cannot apply these changes to cluster demo (nothing was changed)");
    insta::assert_snapshot!(refused(&world, start(&cx, &request(Wanted::File(file(SMALLER)))).await), @"MK_CONFLICT: cluster demo already exists and differs from the file");
    insta::assert_snapshot!(refused(&world, apply(&cx, "nodes: [{role: control-plane, state: stopped}, {name: x}]\n").await), @"MK_CONFIG: demo.yaml:4:38 (`nodes: [{role: control-plane, state: stopped}, {name: x}]`): control plane demo cannot be stopped while other nodes run: at least one control plane must run; stop the other nodes as well, or keep it running");
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_start_goes_on() {
    killed_anywhere(async || World::empty(), async |cx| start(cx, &of(typed(2))).await).await;
    let rebooted = async || {
        let world = World::running(&["control-plane", "worker"]).await;
        world.host.computer.network.lose(&demo());
        for node in ["demo", "demo-m02"] {
            world.host.driver.lose_power(&demo(), &node.parse().unwrap());
        }
        world
    };
    killed_anywhere(rebooted, async |cx| start(cx, &of(typed(2))).await).await;
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_apply_goes_on() {
    for (before, after) in [(SMALLER, LARGER), (LARGER, SMALLER)] {
        let made = async || {
            let world = World::empty();
            apply(&world.context(), before).await.unwrap();
            world.forget();
            world
        };
        killed_anywhere(made, async |cx| apply(cx, after).await).await;
    }
}
