//! An engine wired to fakes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flotilla_core::Cancel;
use flotilla_core::{
    Bootstrapper, Changed, Condition, Host, KubernetesState, MachineState, Network, NetworkPlan, NetworkState,
};
use flotilla_core::{Cluster, Event, Reporter};
use flotilla_engine::converge::{Engine, Lanes, Wait};
use flotilla_engine::store::{ClusterStore, Locked, WhenBusy};
use flotilla_engine::{EngineError, Fleet, View};
use flotilla_spec::{ClusterName, NodeName};
use flotilla_testkit::fake::{
    self, Calls, FakeBootstrapper, FakeBundles, FakeComputer, FakeDriver, FakeKubeconfig,
};
use tempfile::TempDir;

/// A host, a kubeconfig and a state directory with nothing in them but a cluster that was asked for.
pub(crate) struct World {
    pub(crate) calls: Calls,
    pub(crate) driver: Arc<FakeDriver>,
    pub(crate) host: Arc<FakeComputer>,
    hosts: Vec<Arc<dyn Host>>,
    pub(crate) bootstrapper: FakeBootstrapper,
    bundles: FakeBundles,
    pub(crate) kubeconfig: FakeKubeconfig,
    pub(crate) store: ClusterStore,
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) cancel: Cancel,
    pub(crate) cluster: Cluster,
    _home: TempDir,
}

/// A control plane `demo` and a worker `demo-m02`.
pub(crate) fn with_worker() -> Cluster {
    of_nodes(&["control-plane", "worker"])
}

/// A control plane `demo` and two workers, `demo-m02` and `demo-m03`.
pub(crate) fn with_two_workers() -> Cluster {
    of_nodes(&["control-plane", "worker", "worker"])
}

/// Control planes `demo`, `demo-m02` and `demo-m03`, and a worker `demo-m04`.
pub(crate) fn with_control_planes() -> Cluster {
    of_nodes(&["control-plane", "control-plane", "control-plane", "worker"])
}

pub(crate) fn of_nodes(roles: &[&str]) -> Cluster {
    fake::cluster_of_roles(roles)
}

/// What a user would find.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) network: bool,
    pub(crate) machines: BTreeMap<NodeName, MachineState>,
    pub(crate) kubernetes: KubernetesState,
    pub(crate) joined: BTreeSet<NodeName>,
    /// Of etcd, in any order.
    pub(crate) members: BTreeSet<String>,
    pub(crate) known: Vec<ClusterName>,
    pub(crate) current: Option<ClusterName>,
    pub(crate) saved: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(fake::cluster("10.213.0.0/24"))
    }

    pub(crate) fn of(cluster: Cluster) -> Self {
        Self::with_drivers(cluster, |_| Vec::new())
    }

    /// One whose host has more drivers.
    pub(crate) fn with_drivers(cluster: Cluster, more: impl FnOnce(&Calls) -> Vec<Arc<FakeDriver>>) -> Self {
        let home = flotilla_testkit::directory();
        let calls = Calls::default();
        let driver = Arc::new(FakeDriver::new(&calls));
        let host =
            Arc::new(FakeComputer::new("local", &calls, &[vec![driver.clone()], more(&calls)].concat()));
        let world = Self {
            hosts: vec![host.clone()],
            host,
            driver,
            bootstrapper: FakeBootstrapper::new(&calls),
            bundles: FakeBundles::new(&calls),
            kubeconfig: FakeKubeconfig::new(&calls),
            calls,
            store: ClusterStore::new(&home.path().join("home")),
            events: Mutex::default(),
            cancel: Cancel::new(),
            cluster,
            _home: home,
        };
        world.save(&world.cluster).unwrap();
        world
    }

    /// One whose cluster runs, with nothing logged yet.
    pub(crate) async fn running() -> Self {
        Self::running_of(fake::cluster("10.213.0.0/24")).await
    }

    /// One whose cluster runs with one control plane, and is to have all of these nodes.
    pub(crate) async fn growing_to(cluster: Cluster) -> Self {
        let mut small = cluster.clone();
        small.spec.nodes.truncate(1);
        let mut world = Self::running_of(small).await;
        world.save(&cluster).unwrap();
        world.cluster = cluster;
        world
    }

    pub(crate) async fn running_of(cluster: Cluster) -> Self {
        let mut world = Self::of(cluster);
        world.start().await.unwrap();
        // It has run.
        world.cluster = world.store.get(world.name()).unwrap();
        world.calls.take();
        world.take_events();
        world
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        self.engine_with(&self.events)
    }

    pub(crate) fn engine_with<'a>(&'a self, reporter: &'a dyn Reporter) -> Engine<'a> {
        Engine {
            fleet: Fleet::new(&self.hosts),
            bootstrapper: &self.bootstrapper,
            bundles: &self.bundles,
            kubeconfig: &self.kubeconfig,
            store: &self.store,
            reporter,
            cancel: &self.cancel,
            lanes: Lanes::of_cores(2),
            view: View::of(self.name()),
        }
    }

    /// The right to change the cluster, for as long as it is held.
    pub(crate) fn locked(&self) -> Locked {
        let who = |_| panic!("no other command has the lock");
        self.store.lock(self.name(), "a test", WhenBusy::Fail, &self.cancel, who).unwrap()
    }

    pub(crate) fn save(&self, cluster: &Cluster) -> Result<(), EngineError> {
        self.locked().save(cluster)
    }

    pub(crate) fn name(&self) -> &ClusterName {
        self.cluster.name()
    }

    pub(crate) fn node(&self) -> &NodeName {
        &self.cluster.spec.primary().name
    }

    pub(crate) async fn start(&self) -> Result<Changed, EngineError> {
        self.engine().start(&self.locked(), &self.cluster, &wait()).await
    }

    pub(crate) async fn stop(&self) -> Result<Changed, EngineError> {
        self.engine().stop(&self.cluster, false).await
    }

    pub(crate) async fn delete(&self) -> Result<Changed, EngineError> {
        self.engine().delete(&self.locked()).await
    }

    /// Whether every node that runs knows of all others.
    pub(crate) async fn is_configured(&self) -> bool {
        self.engine().observe(&self.cluster).await.unwrap().routes
    }

    /// Updates the routes of every node that runs.
    pub(crate) async fn configure(&self) {
        let machines = self.engine().machines(&self.cluster).await.unwrap();
        self.engine().nodes().configure(&self.cluster, &machines, |_| ()).await.unwrap();
    }

    /// Freezes the cluster, as `flotilla pause` does.
    pub(crate) async fn pause(&self) {
        let machine = self.engine().machine(&self.cluster, self.node()).await.unwrap();
        self.bootstrapper.pause(machine.as_ref(), None).await.unwrap();
    }

    pub(crate) async fn found(&self) -> Found {
        let observed = self.engine().observe(&self.cluster).await.unwrap();
        Found {
            network: self.host.network.state(&NetworkPlan::of(&self.cluster)).await.unwrap()
                == NetworkState::Intact,
            machines: observed.machines,
            kubernetes: observed.kubernetes,
            joined: observed.joined,
            members: self.bootstrapper.member_names(self.name()).into_iter().collect(),
            known: self.kubeconfig.known(),
            current: self.kubeconfig.current(),
            saved: self.store.load(self.name()).unwrap().is_some(),
        }
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }
}

pub(crate) fn wait() -> Wait {
    Wait { conditions: [Condition::NodeReady].into(), limit: Duration::from_mins(1) }
}

/// Names of steps with a mark of what became of them: `>` begun, `.` done.
pub(crate) fn reported(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match event {
        Event::Plan { steps, .. } => format!("plan {}", steps.join(" ")),
        Event::StepStarted { step, .. } => format!("> {step}"),
        Event::StepDone { step, .. } => format!(". {step}"),
        other => format!("{other:?}"),
    };
    events.iter().map(line).collect()
}
