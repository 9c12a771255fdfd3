//! `flotilla status`: what runs of a cluster. Reads, never waits for a lock, changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use flotilla_core::explain::one_line;
use flotilla_core::{ApiAccess, Certificates, Cluster, KubernetesState, Machine, Node, NodeHealth, Power};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_spec::{ClusterName, Role, WantedPower};
use serde::{Deserialize, Serialize};

use crate::etcd::control_planes;
use crate::etcd::status::Members;
use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
    /// By its full or short name; all nodes if none is named.
    pub node: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    pub cluster: Cluster,
    /// The URL of its API, as it is reached from here.
    pub server: String,
    /// None where the file system does not tell.
    pub created: Option<SystemTime>,
    /// Those that were asked for.
    pub nodes: Vec<NodeStatus>,
    /// None where no member can be asked.
    pub etcd: Option<Members>,
    /// Why a cluster that runs is not reached by the person's kubeconfig.
    pub kubeconfig_problem: Option<KubeconfigProblem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    pub node: Node,
    pub is_primary: bool,
    /// Off also if it has no machine.
    pub power: Power,
    /// Of one that runs.
    pub health: NodeHealth,
    /// None for a worker.
    pub control_plane: Option<ControlPlaneStatus>,
    /// None if they cannot be read.
    pub certificates: Option<Certificates>,
    /// What its driver tells of its machine: see [`Machine::details`].
    pub details: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    pub api_server: ApiServer,
    /// Whether the person's kubeconfig leads to the cluster; none if the node does not run.
    pub is_configured: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiServer {
    Running,
    Paused,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KubeconfigProblem {
    /// The cluster cannot be put into it, and why.
    Refused(String),
    /// This file does not lead to the cluster.
    LeadsElsewhere(PathBuf),
}

impl NodeStatus {
    /// It should run, and nobody stopped it.
    pub fn has_ended(&self) -> bool {
        self.power == Power::Off && self.node.spec.power == WantedPower::Running
    }

    pub fn is_running(&self) -> bool {
        self.power == Power::On
    }

    /// All that minikube looks at: machine, kubelet, API server and kubeconfig.
    fn is_healthy_control_plane(&self) -> bool {
        let is_configured = self.control_plane.is_some_and(|it| it.is_configured == Some(true));
        self.is_running() && self.health.kubelet && self.serves() && is_configured
    }

    fn serves(&self) -> bool {
        self.control_plane.is_some_and(|it| it.api_server == ApiServer::Running)
    }

    fn is_misconfigured(&self) -> bool {
        self.control_plane.is_some_and(|it| it.is_configured == Some(false))
    }
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<ClusterStatus, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let only = request.node.as_deref().map(|node| lookup::node(&cluster, Some(node))).transpose()?;
    let engine = cx.engine(cluster.name());
    let machines = engine.machines(&cluster).await?;
    let mut nodes = Vec::new();
    for node in cluster.nodes().filter(|node| only.as_ref().is_none_or(|only| only == node)) {
        let machine = machines.get(&node.spec.name).map(AsRef::as_ref);
        nodes.push(status_of(cx, &engine, &cluster, node, machine).await?);
    }
    let name = cluster.name();
    let kubeconfig_problem =
        nodes.iter().any(NodeStatus::is_misconfigured).then(|| match cx.kubeconfig.refusal(name) {
            Some(refusal) => KubeconfigProblem::Refused(one_line(&refusal)),
            None => KubeconfigProblem::LeadsElsewhere(cx.kubeconfig.path(name)),
        });
    // The only control plane, if it does not run, cannot be asked, and would be waited for.
    let is_asked = cluster.spec.control_planes().count() > 1 || nodes.iter().any(NodeStatus::serves);
    let etcd = if is_asked { members(cx, &engine, &cluster).await } else { None };
    let (server, created) = (cx.fleet.api_url(&cluster).await, cx.store.created(name));
    Ok(ClusterStatus { cluster, server, created, nodes, etcd, kubeconfig_problem })
}

/// How many control planes are healthy. One that cannot be asked is not.
pub(crate) async fn healthy_control_planes(
    cx: &Context<'_>,
    engine: &Engine<'_>,
    cluster: &Cluster,
) -> usize {
    let Ok(machines) = engine.machines(cluster).await else { return 0 };
    let control_planes = cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane);
    let seen = control_planes.map(|node| {
        let machine = machines.get(&node.spec.name).map(AsRef::as_ref);
        status_of(cx, engine, cluster, node, machine)
    });
    let seen = futures::future::join_all(seen).await;
    seen.iter().flatten().filter(|status| status.is_healthy_control_plane()).count()
}

async fn status_of(
    cx: &Context<'_>,
    engine: &Engine<'_>,
    cluster: &Cluster,
    node: Node,
    machine: Option<&dyn Machine>,
) -> Result<NodeStatus, EngineError> {
    let certificates = match machine {
        Some(machine) => cx.bootstrapper.certificates(machine).await.ok(),
        None => None,
    };
    let is_control_plane = node.spec.role == Role::ControlPlane;
    let power = machine.map(|machine| machine.state().power);
    let stopped = ControlPlaneStatus { api_server: ApiServer::Stopped, is_configured: None };
    let is_primary = cluster.spec.primary().name == node.spec.name;
    let Some(machine) = machine.filter(|machine| machine.state().power == Power::On) else {
        return Ok(NodeStatus {
            node,
            is_primary,
            power: power.unwrap_or(Power::Off),
            health: NodeHealth::default(),
            control_plane: is_control_plane.then_some(stopped),
            certificates,
            details: BTreeMap::new(),
        });
    };
    let (health, control_plane) = tokio::join!(cx.bootstrapper.health(cluster, &node, machine), async {
        if !is_control_plane {
            return Ok(None);
        }
        let (state, access) =
            tokio::join!(cx.bootstrapper.observe(cluster, &node, machine), engine.access(cluster, machine),);
        let is_configured = access?.is_some_and(|access| is_configured(cx, cluster, &access));
        Ok::<_, EngineError>(Some((state, is_configured)))
    });
    let control_plane = control_plane?.map(|(state, is_configured)| ControlPlaneStatus {
        api_server: match state {
            KubernetesState::Unreachable => ApiServer::Stopped,
            KubernetesState::Paused => ApiServer::Paused,
            // Where there are several it is another one that may have answered.
            _ if !health.api_server && cluster.spec.control_planes().count() > 1 => ApiServer::Stopped,
            KubernetesState::Incomplete | KubernetesState::Complete => ApiServer::Running,
        },
        is_configured: Some(is_configured),
    });
    let details = machine.details();
    Ok(NodeStatus { node, is_primary, power: Power::On, health, control_plane, certificates, details })
}

/// A file that cannot be read leads nowhere.
fn is_configured(cx: &Context<'_>, cluster: &Cluster, access: &ApiAccess) -> bool {
    let name = cluster.name();
    if cluster.spec.control_planes().count() > 1 {
        return cx.kubeconfig.leads_to(name, access).unwrap_or(false);
    }
    cx.kubeconfig.has_entry(name, access).unwrap_or(false)
}

/// None where no member can be asked.
async fn members(cx: &Context<'_>, engine: &Engine<'_>, cluster: &Cluster) -> Option<Members> {
    let mut vias = control_planes(engine, cluster).await.ok()?;
    vias.retain(|via| via.joined);
    Members::ask(cx, cluster, &vias).await.ok()
}
