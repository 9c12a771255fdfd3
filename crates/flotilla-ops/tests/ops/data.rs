//! What a user has stored is not lost, whatever command fails or is killed, and whatever is forced.

use std::path::PathBuf;
use std::time::Duration;

use flotilla_core::{Drain, Driver, MachineId, Power};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::file::FileText;
use flotilla_ops::node::settings::Settings;
use flotilla_ops::node::{add, delete, start as node_start, stop as node_stop};
use flotilla_ops::start::{self, Request, Wanted};
use flotilla_ops::{Context, OpError, apply, stop};
use flotilla_spec::{NodeName, Role};
use flotilla_testkit::fake::{Calls, When, until_killed_async};

use crate::world::{World, demo};

/// Of data that a user has stored something in.
const STORED: u64 = 42;
const TWO: [&str; 2] = ["control-plane"; 2];
const FORCED: Drain = Drain { limit: Duration::from_secs(30), force: true };

const ONE_NODE: &str = "nodes: [{name: demo, role: control-plane}]\n";

fn file(body: &str) -> FileText {
    let text = format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n{body}");
    FileText { name: "demo.yaml".into(), text, directory: PathBuf::new() }
}

/// `flotilla start -f FILE`
async fn start(cx: &Context<'_>, body: &str) -> Result<(), OpError> {
    let wait = Wait::for_cluster(Wait::LIMIT);
    let request = Request {
        cluster: demo(),
        wanted: Wanted::File(file(body)),
        wait,
        force: false,
        busy: WhenBusy::Wait,
    };
    start::prepare(cx, &request).await?.run().await.map(drop)
}

/// `flotilla apply -f FILE --yes --force`
async fn apply_by_force(cx: &Context<'_>, body: &str) -> Result<(), OpError> {
    let request =
        apply::Request { file: file(body), drain: FORCED, wait_limit: Wait::LIMIT, busy: WhenBusy::Wait };
    match apply::prepare(cx, &request).await? {
        apply::Prepared::Change(prepared) => prepared.run().await.map(drop),
        apply::Prepared::New(_) => panic!("the cluster exists"),
    }
}

async fn stop_node(world: &World, node: &str) {
    let how = Drain { force: false, ..FORCED };
    let nodes = vec![node.to_owned()];
    let request = node_stop::Request { cluster: demo(), nodes, drain: false, how, busy: WhenBusy::Wait };
    node_stop::run(&world.context(), &request).await.unwrap();
}

async fn delete_by_force(world: &World, nodes: &[&str]) -> Result<(), OpError> {
    let nodes = nodes.iter().map(ToString::to_string).collect();
    let request = delete::Request { cluster: demo(), nodes, drain: FORCED, busy: WhenBusy::Wait };
    delete::run(&world.context(), &request).await.map(drop)
}

async fn stop_all(world: &World) {
    let request = stop::Request { cluster: demo(), keep_context: false, busy: WhenBusy::Wait };
    stop::run(&world.context(), &request).await.unwrap();
}

/// A cluster in whose API a user has stored something.
async fn running(roles: &[&str]) -> World {
    let world = World::running(roles).await;
    for machine in world.machines().await.values() {
        if machine.guest().read("/var/lib/etcd/member").await.unwrap().is_some() {
            world.host.bootstrapper.set_revision(machine.as_ref(), STORED).await;
        }
    }
    world.forget();
    world
}

fn kept(world: &World) -> Vec<(String, u64)> {
    let revisions = world.host.driver.etcd_revisions(&demo());
    revisions.into_iter().map(|(node, revision)| (node.to_string(), revision)).collect()
}

fn owned(kept: &[(&str, u64)]) -> Vec<(String, u64)> {
    kept.iter().map(|(node, revision)| ((*node).to_owned(), *revision)).collect()
}

async fn lose(world: &World, node: &str) {
    world.host.driver.remove(&MachineId::new(&demo(), &node.parse::<NodeName>().unwrap())).await.unwrap();
}

fn assert_is_lost(done: Result<(), OpError>, world: &World, what: &str) {
    assert_eq!(kept(world), [], "{what}: an empty cluster was created");
    assert_eq!(done.unwrap_err().code().name, "GUEST_CONTROL_PLANE_LOST", "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_lost_after_a_first_start_that_failed_is_not_replaced_by_an_empty_one() {
    let sound = World::empty();
    start(&sound.context(), ONE_NODE).await.unwrap();
    let calls = sound.host.calls.take();
    let answered = calls.iter().position(|call| call == "start-api demo").unwrap();
    for (nth, call) in (1..).zip(&calls).skip(answered + 1) {
        for disturb in [Calls::fail_nth, Calls::kill_nth] {
            let world = World::empty();
            disturb(&world.host.calls, nth, When::Before);
            drop(until_killed_async(Box::pin(start(&world.context(), ONE_NODE))).await);
            assert_eq!(kept(&world), owned(&[("demo", 1)]), "`{call}`: the API has answered");
            lose(&world, "demo").await;
            assert_is_lost(start(&world.context(), ONE_NODE).await, &world, call);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_command_sees_a_member_first_records_that_the_cluster_has_run() {
    let adding = add::Request {
        cluster: demo(),
        names: vec![None],
        role: Role::Worker,
        settings: Settings::default(),
        making: add::Making::default(),
        wait_limit: Wait::LIMIT,
        busy: WhenBusy::Wait,
    };
    let starting = node_start::Request {
        cluster: demo(),
        nodes: vec!["demo".to_owned()],
        wait_limit: Wait::LIMIT,
        busy: WhenBusy::Wait,
    };
    for what in ["start", "apply", "node add", "node start"] {
        let world = World::running(&["control-plane"]).await;
        // As an earlier release left it whose first start had failed.
        let mut cluster = world.store.get(&demo()).unwrap();
        cluster.allocations.founded = false;
        world.save(&cluster);
        let cx = world.context();
        match what {
            "start" => start(&cx, ONE_NODE).await.unwrap(),
            "apply" => {
                apply_by_force(&cx, "nodes: [{name: demo, role: control-plane}, {}]\n").await.unwrap();
            }
            "node add" => drop(add::run(&cx, &adding).await.unwrap()),
            _ => drop(node_start::run(&cx, &starting).await.unwrap()),
        }
        assert!(world.store.get(&demo()).unwrap().allocations.founded, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_copy_is_deleted_by_no_command_about_nodes() {
    for is_off in [false, true] {
        let world = running(&TWO).await;
        stop_node(&world, "demo-m02").await;
        if is_off {
            stop_all(&world).await;
        }
        let before = world.found().await;
        for what in ["node delete", "apply"] {
            let refused = if what == "node delete" {
                delete_by_force(&world, &["demo"]).await
            } else {
                let body = "nodes: [{name: demo-m02, role: control-plane, state: stopped}]\n";
                apply_by_force(&world.context(), body).await
            };
            assert_eq!(
                kept(&world),
                owned(&[("demo", STORED)]),
                "{what}, off: {is_off}: all objects are lost"
            );
            assert_eq!(refused.unwrap_err().code().name, "GUEST_LAST_DATA", "{what}, off: {is_off}");
            assert_eq!(world.found().await, before, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_replaces_the_only_member_moves_its_data_first() {
    for is_off in [false, true] {
        let world = running(&TWO).await;
        stop_node(&world, "demo-m02").await;
        if is_off {
            stop_all(&world).await;
        }
        let body = "nodes: [{name: demo-m02, role: control-plane}]\n";
        let applied = apply_by_force(&world.context(), body).await;
        if is_off {
            // Without the only member the other one has nothing to join.
            assert_eq!(applied.unwrap_err().code().name, "GUEST_NOT_RUNNING");
            assert_eq!(kept(&world), owned(&[("demo", STORED)]));
        } else {
            applied.unwrap();
            assert_eq!(kept(&world), owned(&[("demo-m02", STORED)]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_start_takes_a_control_plane_without_its_data_for_a_new_one() {
    let world = running(&["control-plane", "worker"]).await;
    stop_all(&world).await;
    let machine = world.host.driver.machine(&demo(), &"demo".parse().unwrap());
    machine.lose_file("/var/lib/etcd/member");
    world.forget();
    let body = "nodes: [{name: demo, role: control-plane}, {name: demo-m02}]\n";
    assert_is_lost(start(&world.context(), body).await, &world, "start");
    let calls = world.host.calls.take();
    assert!(!calls.iter().any(|call| call.starts_with("ensure demo")), "nothing is booted: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_off_while_others_took_writes_is_not_all_that_stays() {
    let world = running(&["control-plane"; 3]).await;
    stop_all(&world).await;
    let two = ["demo", "demo-m02"].map(str::to_owned).to_vec();
    let request =
        node_start::Request { cluster: demo(), nodes: two, wait_limit: Wait::LIMIT, busy: WhenBusy::Wait };
    node_start::run(&world.context(), &request).await.unwrap();
    let revision = let_users_write(&world, STORED).await;
    stop_all(&world).await;
    let before = owned(&[("demo", revision), ("demo-m02", revision), ("demo-m03", STORED)]);
    assert_eq!(kept(&world), before);
    let refused = delete_by_force(&world, &["demo", "demo-m02"]).await.unwrap_err();
    assert_eq!((refused.code().name, kept(&world)), ("GUEST_LAST_DATA", before));
    // Each of two has the write for sure, and so has the last one that was up.
    delete_by_force(&world, &["demo"]).await.unwrap();
    let refused = delete_by_force(&world, &["demo-m02"]).await.unwrap_err();
    assert_eq!(refused.code().name, "GUEST_LAST_DATA");
    assert_eq!(kept(&world), owned(&[("demo-m02", revision), ("demo-m03", STORED)]));
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn some_of(&mut self, names: &[String]) -> Vec<String> {
        let chosen = 1 + self.below((1 << names.len()) - 1);
        names
            .iter()
            .enumerate()
            .filter(|(bit, _)| chosen >> bit & 1 == 1)
            .map(|(_, name)| name.clone())
            .collect()
    }
}

/// What etcd does by itself: members are up while most of them are on, and then take a write.
async fn let_users_write(world: &World, revision: u64) -> u64 {
    let members = world.host.bootstrapper.member_names(&demo());
    let (machines, kept) = (world.machines().await, kept(world));
    let has_data = |name: &String| kept.iter().any(|(node, _)| node == name);
    let is_on = |name: &String| {
        machines.iter().any(|(node, machine)| node.as_ref() == name && machine.state().power == Power::On)
    };
    let up: Vec<_> = members.iter().filter(|name| is_on(name) && has_data(name)).collect();
    let holds = up.len() * 2 > members.len();
    for name in &members {
        world.host.bootstrapper.set_up(&demo(), &name.parse().unwrap(), holds && up.contains(&name));
    }
    if !holds {
        return revision;
    }
    for name in up {
        world.host.bootstrapper.set_revision(world.machine(name).await.as_ref(), revision + 1).await;
    }
    revision + 1
}

/// One command after the other, in any order; with `kills`, some are killed somewhere.
async fn commands_in_any_order(seed: u64, kills: bool) {
    const LONGEST: u64 = 30;
    let mut dice = Dice(seed);
    let world = running(&["control-plane"; 3]).await;
    let mut revision = let_users_write(&world, STORED).await;
    let mut done = Vec::new();
    for _ in 0..8 {
        let cluster = world.store.get(&demo()).unwrap();
        let names: Vec<_> = cluster.spec.nodes.iter().map(|node| node.name.to_string()).collect();
        let (some, force) = (dice.some_of(&names), dice.below(2) == 0);
        let is_killed = kills && dice.below(2) == 0;
        world.forget();
        if is_killed {
            let when = if dice.below(2) == 0 { When::Before } else { When::After };
            world.host.calls.kill_nth(usize::try_from(1 + dice.below(LONGEST)).unwrap(), when);
        }
        let (cx, busy) = (world.context(), WhenBusy::Wait);
        let how = Drain { force, ..FORCED };
        let (what, ran) = match dice.below(4) {
            0 => {
                let request =
                    node_stop::Request { cluster: demo(), nodes: some.clone(), drain: false, how, busy };
                (
                    "node stop",
                    until_killed_async(Box::pin(async { node_stop::run(&cx, &request).await.map(drop) }))
                        .await,
                )
            }
            1 => {
                let request = delete::Request { cluster: demo(), nodes: some.clone(), drain: how, busy };
                (
                    "node delete",
                    until_killed_async(Box::pin(async { delete::run(&cx, &request).await.map(drop) })).await,
                )
            }
            2 => {
                let wait_limit = Wait::LIMIT;
                let request = node_start::Request { cluster: demo(), nodes: some.clone(), wait_limit, busy };
                (
                    "node start",
                    until_killed_async(Box::pin(async { node_start::run(&cx, &request).await.map(drop) }))
                        .await,
                )
            }
            _ => {
                let request = stop::Request { cluster: demo(), keep_context: false, busy };
                (
                    "stop",
                    until_killed_async(Box::pin(async { stop::run(&cx, &request).await.map(drop) })).await,
                )
            }
        };
        world.host.calls.kill_nth(usize::MAX, When::Before);
        let ended = ran.map_or("killed".to_owned(), |ran| {
            ran.err().map_or("done".to_owned(), |error| error.code().name.to_owned())
        });
        done.push(format!("{what} {some:?} force={force}: {ended}; {:?}", kept(&world)));
        let newest = kept(&world).into_iter().map(|(_, revision)| revision).max();
        assert!(newest == Some(revision), "seed {seed}, revision {revision} is lost:\n{}", done.join("\n"));
        revision = let_users_write(&world, revision).await;
    }
}

#[tokio::test(start_paused = true)]
async fn commands_in_any_order_keep_what_was_written_last() {
    // Among them one that once lost data.
    for seed in 360..400 {
        commands_in_any_order(seed, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn commands_in_any_order_of_which_some_are_killed_keep_it_as_well() {
    for seed in 0..40 {
        commands_in_any_order(seed, true).await;
    }
}
