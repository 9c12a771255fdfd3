//! What commands about clusters share: the engine, wired to the real world.

pub(crate) mod bundles;
pub(crate) mod certificates;
mod kubeconfig;
pub(crate) mod prepare;
pub(crate) mod ranges;

use std::future::Future;

use flotilla_bundle::BundleStore;
use flotilla_core::Cancel;
use flotilla_core::{Cluster, Finding, Kubeconfig, Node, Severity};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_engine::store::{ClusterStore, Locked, Ranges};
use flotilla_ops::{Context, OpError};
use flotilla_spec::{ClusterName, KubernetesVersion, NodeName};
use tokio::runtime::Runtime;

use crate::args::LockArgs;
use crate::interrupt;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::wiring::Wiring;

pub(crate) use crate::wiring::this_host;
pub(crate) use kubeconfig::PersonalKubeconfig;

/// A command's surroundings.
pub(crate) struct Cx<'a> {
    pub(crate) name: ClusterName,
    pub(crate) screen: &'a Screen,
    pub(crate) store: ClusterStore,
    pub(crate) cancel: Cancel,
    wiring: &'a Wiring,
    runtime: Runtime,
}

impl<'a> Cx<'a> {
    /// Checks the name; touches nothing.
    pub(crate) fn new(profile: &str, screen: &'a Screen, wiring: &'a Wiring) -> Result<Self, OpError> {
        let name: ClusterName = profile.parse()?;
        screen.is_about(&name);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|source| EngineError::Io { action: "start", path: "the runtime".into(), source })?;
        let (store, cancel) = (wiring.store.clone(), wiring.cancel.clone());
        Ok(Self { name, screen, store, cancel, wiring, runtime })
    }

    /// What the use cases work with.
    pub(crate) fn context(&self) -> Context<'_> {
        self.wiring.context(self.screen.reporter())
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.screen.settings()
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        self.context().engine()
    }

    pub(crate) fn kubeconfig(&self) -> &dyn Kubeconfig {
        self.wiring.kubeconfig.as_ref()
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// What the host lacks for a cluster of this version, and what is well.
    pub(crate) fn examine(&self, bundles: &BundleStore, version: &KubernetesVersion) -> Vec<Finding> {
        let mut findings = self.wait(self.engine().fleet.examine());
        findings.push(prepare::bundle_finding(bundles, version));
        findings
    }

    /// The address ranges that others on this host use.
    pub(crate) fn subnets_in_use(&self) -> Result<Ranges, OpError> {
        let used = self.wait(self.engine().fleet.subnets_in_use(&self.name)).map_err(EngineError::from)?;
        // Also those of clusters that are stopped, or are being made just now. First: they name the cluster.
        let Ranges { taken, mut unknown } = self.store.ranges(&self.name)?;
        // The kernel knows those of a cluster that runs, whatever is left of its state.
        unknown.retain(|name| !used.iter().any(|subnet| subnet.user == format!("the cluster {name}")));
        let used = used.into_iter().map(|subnet| (subnet.range, subnet.user));
        Ok(Ranges { taken: taken.into_iter().chain(used).collect(), unknown })
    }

    pub(crate) fn require_root(&self) -> Result<(), OpError> {
        self.wait(self.context().require_root())
    }

    /// From here on Ctrl-C ends what runs, in an orderly way.
    pub(crate) fn handle_signals(&self) -> Result<(), OpError> {
        if !self.wiring.cancels_on_signals {
            return Ok(());
        }
        interrupt::cancel_on_signal(&self.cancel, self.screen.bars_remover())
            .map_err(|source| EngineError::Io { action: "handle", path: "signals".into(), source }.into())
    }

    /// Takes the right to change a cluster.
    pub(crate) fn lock(&self, name: &ClusterName, what: &str, args: LockArgs) -> Result<Locked, OpError> {
        self.context().lock(name, what, args.busy())
    }

    /// Told where nobody could answer for the API: no control plane is on.
    pub(crate) fn require_control_plane(&self, cluster: &Cluster) -> Result<(), EngineError> {
        if self.wait(self.engine().control_plane_is_on(cluster))? {
            return Ok(());
        }
        Err(EngineError::Stopped(self.name.clone()))
    }

    /// The cluster, which must be there.
    pub(crate) fn cluster(&self) -> Result<Cluster, OpError> {
        self.require_root()?;
        Ok(self.store.get(&self.name)?)
    }
}

/// A node by its full or short name; the primary one if none is named.
pub(crate) fn node_of(cluster: &Cluster, wanted: Option<&str>) -> Result<Node, OpError> {
    let primary = cluster.spec.primary().name.clone();
    let find = |is_it: &dyn Fn(&NodeName) -> bool| {
        cluster.spec.nodes.iter().map(|node| &node.name).find(|name| is_it(name))
    };
    let name = match wanted {
        None => Some(&primary),
        // A full name is nobody else's short one.
        Some(wanted) => find(&|name| name.as_ref() == wanted)
            .or_else(|| find(&|name| name.short(cluster.name()) == wanted)),
    };
    let name = name.ok_or_else(|| EngineError::no_node(cluster, wanted.unwrap_or_default()))?;
    Ok(cluster.node(name).ok_or_else(|| EngineError::no_node(cluster, name.as_ref()))?)
}

/// The findings that make it impossible to go on.
pub(crate) fn fatal(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| finding.severity == Severity::Fatal).collect()
}
