//! A host of fakes with a state directory: what use cases are wired to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::{Cluster, Condition, Machine, MachineState, Reporter};
use flotilla_engine::Fleet;
use flotilla_engine::converge::Wait;
use flotilla_engine::store::{ClusterStore, WhenBusy};
use flotilla_ops::{Context, OpError};
use flotilla_spec::{ClusterName, HostSize, NodeName};
use flotilla_testkit::fake::{self, Calls, FakeHost, When, until_killed_async};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) host: FakeHost,
    pub(crate) store: ClusterStore,
    pub(crate) is_root: bool,
    _home: TempDir,
}

/// What a user would find of the cluster `demo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) machines: BTreeMap<NodeName, MachineState>,
    pub(crate) joined: BTreeSet<NodeName>,
    /// Of etcd, in any order.
    pub(crate) members: BTreeSet<String>,
    pub(crate) current: Option<ClusterName>,
    /// As it is saved.
    pub(crate) cluster: Option<Cluster>,
}

impl World {
    /// A host without clusters.
    pub(crate) fn empty() -> Self {
        let home = flotilla_testkit::directory();
        let store = ClusterStore::new(&home.path().join("home"));
        Self { host: FakeHost::default(), store, is_root: true, _home: home }
    }

    /// One whose cluster runs, with nothing logged yet.
    pub(crate) async fn running(roles: &[&str]) -> Self {
        let world = Self::empty();
        let mut cluster = fake::cluster_of_roles(roles);
        world.save(&cluster);
        let wait = Wait { conditions: [Condition::NodeReady].into(), limit: Duration::from_mins(1) };
        let locked = world.context().lock(&demo(), "a test", WhenBusy::Fail).unwrap();
        world.context().engine(&demo()).start(&locked, &cluster, &wait).await.unwrap();
        drop(locked);
        cluster.allocations.founded = true;
        world.save(&cluster);
        world.forget();
        world
    }

    pub(crate) fn context(&self) -> Context<'_> {
        self.context_for(&self.host.events)
    }

    pub(crate) fn context_for<'a>(&'a self, reporter: &'a dyn Reporter) -> Context<'a> {
        Context {
            fleet: Fleet::new(&self.host.hosts),
            bootstrapper: self.host.bootstrapper.as_ref(),
            bundles: self.host.bundles.as_ref(),
            kubeconfig: self.host.kubeconfig.as_ref(),
            store: &self.store,
            reporter,
            cancel: &self.host.cancel,
            host: HostSize { cpus: 8, memory: 32 << 30 },
            is_root: self.is_root,
        }
    }

    pub(crate) fn save(&self, cluster: &Cluster) {
        let locked = self.context().lock(cluster.name(), "a test", WhenBusy::Fail).unwrap();
        locked.save(cluster).unwrap();
    }

    /// The machines of the cluster `demo`, as they are now.
    pub(crate) async fn machines(&self) -> BTreeMap<NodeName, Arc<dyn Machine>> {
        let cluster = self.store.get(&demo()).unwrap();
        self.context().engine(&demo()).machines(&cluster).await.unwrap()
    }

    /// The machine of one of its nodes.
    pub(crate) async fn machine(&self, node: &str) -> Arc<dyn Machine> {
        self.machines().await.remove(&node.parse::<NodeName>().unwrap()).unwrap()
    }

    /// Begins new logs of calls and events.
    pub(crate) fn forget(&self) {
        self.host.calls.take();
        self.host.calls.take_questions();
        self.host.take_events();
    }

    pub(crate) async fn found(&self) -> Found {
        let cluster = self.store.load(&demo()).unwrap();
        let observed = match &cluster {
            Some(cluster) => self.context().engine(&demo()).observe(cluster).await.unwrap(),
            None => flotilla_engine::plan::Observed::nothing(),
        };
        Found {
            machines: observed.machines,
            joined: observed.joined,
            members: self.host.bootstrapper.member_names(&demo()).into_iter().collect(),
            current: self.host.kubeconfig.current(),
            cluster,
        }
    }
}

pub(crate) fn demo() -> ClusterName {
    "demo".parse().unwrap()
}

/// Fails every call of a use case once and kills the program in it once, both before and after the call did its work: the
/// same use case again reaches the end that it reaches undisturbed.
pub(crate) async fn killed_anywhere<T: std::fmt::Debug>(
    world: impl AsyncFn() -> World,
    run: impl AsyncFn(&Context<'_>) -> Result<T, OpError>,
) {
    disturbed_anywhere(world, run, Again::Always, &[Calls::fail_nth, Calls::kill_nth]).await;
}

/// Like [`killed_anywhere`], for use cases that do more if they are run again after they succeeded.
pub(crate) async fn killed_anywhere_once<T: std::fmt::Debug>(
    world: impl AsyncFn() -> World,
    run: impl AsyncFn(&Context<'_>) -> Result<T, OpError>,
) {
    disturbed_anywhere(world, run, Again::IfFailed, &[Calls::fail_nth, Calls::kill_nth]).await;
}

/// Like [`killed_anywhere`] with kills alone: for use cases that go on after some errors, in another way.
pub(crate) async fn killed_only<T: std::fmt::Debug>(
    world: impl AsyncFn() -> World,
    run: impl AsyncFn(&Context<'_>) -> Result<T, OpError>,
) {
    disturbed_anywhere(world, run, Again::Always, &[Calls::kill_nth]).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// Also if the fault was only reported: the kubeconfig belongs to the user, and stops no cluster.
    Always,
    IfFailed,
}

async fn disturbed_anywhere<T: std::fmt::Debug>(
    world: impl AsyncFn() -> World,
    run: impl AsyncFn(&Context<'_>) -> Result<T, OpError>,
    again: Again,
    disturbances: &[fn(&Calls, usize, When)],
) {
    let sound = Box::pin(world()).await;
    Box::pin(run(&sound.context())).await.unwrap();
    let calls = sound.host.calls.take();
    let wanted = sound.found().await;
    assert!(!calls.is_empty(), "the use case calls something");
    for (nth, call) in (1..).zip(&calls).filter(|(nth, _)| !is_poll(&calls, *nth)) {
        for when in [When::Before, When::After] {
            for how in disturbances {
                let world = Box::pin(world()).await;
                how(&world.host.calls, nth, when);
                let first = until_killed_async(Box::pin(run(&world.context()))).await;
                if (again == Again::Always || !matches!(first, Some(Ok(_))))
                    && let Err(error) = Box::pin(run(&world.context())).await
                {
                    panic!("{when:?} `{call}`: first {first:?}, then {error:?}");
                }
                assert_eq!(world.found().await, wanted, "{when:?} `{call}`: first {first:?}");
            }
        }
    }
}

/// Whether the nth call is in the middle of many that are the same: those of a wait.
fn is_poll(calls: &[String], nth: usize) -> bool {
    let (before, rest) = calls.split_at(nth - 1);
    let same = |calls: &[String]| calls.iter().filter(|call| **call == rest[0]).count();
    same(before) > 5 && same(rest) > 5
}

/// The code and the text of a refusal, which must have changed nothing.
pub(crate) fn refused<T: std::fmt::Debug>(world: &World, done: Result<T, OpError>) -> String {
    const CHANGES: [&str; 6] = ["ensure ", "stop ", "remove", "start-api", "join", "drain"];
    let error = done.unwrap_err();
    let log = world.host.calls.take();
    let is_change = |call: &&String| CHANGES.iter().any(|change| call.starts_with(change));
    assert_eq!(log.iter().find(is_change), None, "{error}");
    format!("{}: {error}", error.code().name)
}
