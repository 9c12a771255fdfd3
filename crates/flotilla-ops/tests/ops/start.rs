//! `start`, `apply`, `diff`.

use std::path::PathBuf;
use std::time::Duration;

use flotilla_core::{Changed, Drain, Event};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::file::FileText;
use flotilla_ops::start::{self, GivenNetwork, Request, Sizes, Started, Typed, Wanted};
use flotilla_ops::{Context, OpError, apply, delete};
use flotilla_spec::{ClusterSpec, Cpus, Isolation};

use flotilla_testkit::fake::{When, until_killed_async};

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
        isolation: None,
        network: GivenNetwork::default(),
    }
}

fn request(wanted: Wanted) -> Request {
    Request {
        cluster: demo(),
        wanted,
        wait: Wait::for_cluster(Wait::LIMIT),
        force: false,
        busy: WhenBusy::Wait,
    }
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
    apply::Request { file: file(body), drain, wait_limit: Wait::LIMIT, busy: WhenBusy::Wait }
}

/// What `apply --yes` does.
async fn apply(cx: &Context<'_>, body: &str) -> Result<Changed, OpError> {
    match apply::prepare(cx, &applying(body)).await? {
        apply::Prepared::Change(prepared) => prepared.run().await,
        apply::Prepared::New(new) => Ok(new.start().await?.run().await?.changed),
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
    insta::assert_snapshot!(refused(&world, start(&cx, &of(typed(3))).await), @"MK_CONFLICT: cluster demo has 2 nodes, not 3");
    let mut sized = typed(2);
    sized.sizes.cpus = Some(Cpus::Max);
    let started = start(&cx, &of(sized)).await.unwrap();
    assert_eq!((started.changed, started.sizes_pending.len()), (Changed::No, 2));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waited_for_a_delete_makes_no_other_cluster() {
    let world = World::empty();
    let (cx, request) = (world.context(), of(typed(1)));
    start(&cx, &request).await.unwrap();
    let prepared = start::prepare(&cx, &request).await.unwrap();
    delete::run(&cx, &delete::Request { cluster: demo(), busy: WhenBusy::Wait }).await.unwrap();
    let error = prepared.run().await.unwrap_err();
    assert_eq!(
        (error.code().name, error.to_string().as_str()),
        ("GUEST_NO_CLUSTER", "cluster demo was deleted meanwhile")
    );
    assert_eq!(world.store.names().unwrap(), [], "the lock would look like an unfinished cluster");
    assert_eq!(start(&cx, &request).await.unwrap().changed, Changed::Yes);
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
    the node subnet 10.50.0.0/24 overlaps the cluster demo; choose another range, or leave it out for a free one
    name other is in use: /home/.kube/config already has a context other; choose another name with -p, rename cluster, user and context other in /home/.kube/config, or set KUBECONFIG to another file
    node name demo is used by cluster demo; give the node another name
    host port 8080:80 is in use: cluster demo; publish another port of the host
    ");
    assert_eq!(world.store.names().unwrap(), [demo()]);
}

#[tokio::test(start_paused = true)]
async fn services_get_a_free_range_unless_one_was_asked_for() {
    let world = World::empty();
    let mut first = typed(1);
    first.spec.network.subnet = Some("10.100.0.0/24".parse().unwrap());
    first.spec.network.service_subnet = "10.112.0.0/16".parse().unwrap();
    first.network.service_subnet = Some(first.spec.network.service_subnet);
    start(&world.context(), &of(first)).await.unwrap();
    world.forget();
    let mut other = typed(1);
    other.spec.name = "other".parse().unwrap();
    other.spec.nodes[0].name = "other".parse().unwrap();
    let request = |typed: Typed| Request { cluster: "other".parse().unwrap(), ..of(typed) };
    let mut given = other.clone();
    given.network.service_subnet = Some(given.spec.network.service_subnet);
    let cx = world.context();
    let refused = start(&cx, &request(given)).await.unwrap_err();
    assert_eq!(refused.to_string(), "the service subnet 10.96.0.0/12 overlaps the cluster demo");
    start(&cx, &request(other.clone())).await.unwrap();
    let range =
        || world.store.get(&"other".parse().unwrap()).unwrap().spec.network.service_subnet.to_string();
    assert_eq!(range(), "10.112.0.0/12");
    world.forget();
    assert_eq!(start(&world.context(), &request(other)).await.unwrap().changed, Changed::No);
    assert_eq!(range(), "10.112.0.0/12", "a cluster keeps its range");
}

#[tokio::test(start_paused = true)]
async fn the_port_of_the_api_is_chosen_once() {
    let world = World::empty();
    let with_port = |port: Option<u16>| {
        let mut typed = typed(1);
        typed.spec.api_server.port = port;
        of(typed)
    };
    let cx = world.context();
    insta::assert_snapshot!(refused(&world, start(&cx, &with_port(Some(10_250))).await), @"MK_USAGE: the API server cannot have port 10250: in every node it is for the kubelet");
    let started = start(&cx, &with_port(Some(8441))).await.unwrap();
    assert!(started.server.ends_with(":8441"), "{}", started.server);
    world.forget();
    let cx = world.context();
    for same in [None, Some(8441)] {
        assert_eq!(start(&cx, &with_port(same)).await.unwrap().changed, Changed::No, "{same:?}");
    }
    insta::assert_snapshot!(refused(&world, start(&cx, &with_port(Some(6443))).await), @"MK_CONFLICT: cluster demo already exists with another API server port");
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

#[tokio::test(start_paused = true)]
async fn labels_of_a_killed_apply_are_taken_away_by_a_file_without_them() {
    const LABELLED: &str = "nodes: [{role: control-plane, labels: {a: b}, taints: ['gpu:NoExecute']}]\n";
    let node = "demo".parse().unwrap();
    for (before, killed) in [(SMALLER, LABELLED), (LABELLED, SMALLER)] {
        for when in [When::Before, When::After] {
            for started in [false, true] {
                let world = World::empty();
                apply(&world.context(), SMALLER).await.unwrap();
                apply(&world.context(), before).await.unwrap();
                world.forget();
                let registered = world.host.bootstrapper.registered(&node);
                apply(&world.context(), killed).await.unwrap();
                let calls = world.host.calls.take();
                let nth = 1 + calls.iter().position(|call| call.starts_with("update-labels")).unwrap();
                apply(&world.context(), before).await.unwrap();
                world.forget();
                world.host.calls.kill_nth(nth, when);
                let cx = world.context();
                assert!(until_killed_async(Box::pin(apply(&cx, killed))).await.is_none());
                if started {
                    start(&cx, &request(Wanted::File(file(before)))).await.unwrap();
                } else {
                    apply(&cx, before).await.unwrap();
                }
                assert_eq!(world.host.bootstrapper.registered(&node), registered, "{killed} killed {when:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_start_with_nothing_to_do_asks_each_node_everything_once() {
    let world = World::running(&["control-plane", "control-plane", "worker"]).await;
    let request = Request { busy: WhenBusy::Fail, ..of(Typed { count: None, ..typed(3) }) };
    assert_eq!(start(&world.context(), &request).await.unwrap().changed, Changed::No);
    let (calls, mut questions) = (world.host.calls.take(), world.host.calls.take_questions());
    assert_eq!(calls.iter().filter(|call| *call == "find").count(), 1, "{calls:?}");
    questions.sort();
    insta::assert_snapshot!(questions.join("\n"), @"
    /usr/local/sbin/flotilla-init configure --check demo
    /usr/local/sbin/flotilla-init configure --check demo-m02
    /usr/local/sbin/flotilla-init configure --check demo-m03
    certificates demo
    certificates demo-m02
    certificates demo-m03
    paused demo
    paused demo-m02
    ");
}

#[tokio::test(start_paused = true)]
async fn all_nodes_of_a_new_cluster_can_have_user_namespaces_and_keep_them() {
    let world = World::empty();
    let user = |count| {
        let mut typed = typed(count);
        typed.isolation = Some(Isolation::User);
        typed.spec.node_defaults.isolation = Isolation::User;
        typed.spec.nodes.iter_mut().for_each(|node| node.isolation = Isolation::User);
        typed
    };
    start(&world.context(), &of(user(2))).await.unwrap();
    let cluster = world.found().await.cluster.unwrap();
    assert_eq!(cluster.allocations.ids.len(), 2);
    assert_eq!(start(&world.context(), &of(user(2))).await.unwrap().changed, Changed::No);
    let none = Typed { isolation: Some(Isolation::None), ..typed(2) };
    let refused = start(&world.context(), &of(none)).await.unwrap_err();
    assert_eq!(refused.to_string(), "cluster demo already exists with another isolation");
    assert_eq!(world.found().await.cluster.unwrap(), cluster);
}

#[tokio::test]
async fn a_new_cluster_copies_the_users_certificate_authority() {
    let world = World::empty();
    let cx = world.context();
    let folder = flotilla_testkit::directory();
    let mut wanted = typed(1);
    wanted.spec.certificate_authority = Some(folder.path().to_owned());
    let refusal = start(&cx, &of(wanted.clone())).await.unwrap_err();
    let why =
        format!("cannot use the certificate authority in {}: there is no ca.key", folder.path().display());
    assert_eq!((refusal.to_string(), refusal.code().exit_status), (why, 14));
    assert!(world.store.get(&demo()).is_err(), "nothing is created");

    for (name, text) in [("ca.crt", "certificate"), ("ca.key", "key"), ("notes.txt", "mine")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    // Its control plane cannot be created yet.
    world.host.calls.fail("start-api demo", When::Before);
    start(&cx, &of(wanted.clone())).await.unwrap_err();
    let copied = world.store.get(&demo()).unwrap().allocations.authorities.unwrap();
    assert_eq!(copied.0.keys().collect::<Vec<_>>(), ["ca.crt", "ca.key"]);

    // The directory is not read again.
    let path = folder.path().to_owned();
    drop(folder);
    start(&cx, &of(wanted.clone())).await.unwrap();
    let cluster = world.store.get(&demo()).unwrap();
    assert_eq!(cluster.allocations.authorities, None);
    assert_eq!(cluster.spec.certificate_authority, Some(path));
    start(&cx, &of(typed(1))).await.unwrap();
    wanted.spec.certificate_authority = Some("/another".into());
    let refusal = start(&cx, &of(wanted)).await.unwrap_err();
    assert_eq!(refusal.to_string(), "cluster demo already exists with another certificate authority");
}
