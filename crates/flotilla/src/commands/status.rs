//! `flotilla status`

mod about;
mod etcd;
mod shape;

use flotilla_core::explain::one_line;
use flotilla_core::explain::profile_flag;
use flotilla_core::{ApiAccess, KubernetesState, Machine, Power, Unresponsive};
use flotilla_core::{Cluster, Node};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::{NodeName, Role, WantedPower};
use jiff::Timestamp;

use crate::args::{LayoutArg, StatusArgs};
use crate::cluster::{Cx, node_of};
use crate::screen::fill_in;

use about::About;
use shape::{ClusterStatus, NodeStatus};

/// Reads, never waits for a lock, changes nothing.
pub(crate) fn run(cx: &Cx, args: &StatusArgs) -> Result<u8, OpError> {
    let cluster = cx.cluster()?;
    let only = args.node.as_deref().map(|node| node_of(&cluster, Some(node))).transpose()?;
    let machines = cx.wait(cx.engine().machines(&cx.name))?;
    let mut nodes = Vec::new();
    for spec in &cluster.spec.nodes {
        if only.as_ref().is_some_and(|only| only.spec.name != spec.name) {
            continue;
        }
        let Some(node) = cluster.node(&spec.name) else { continue };
        let certificates = machines.get(&spec.name).and_then(|machine| cx.certificates(machine.as_ref()));
        let found = machines.get(&spec.name);
        if let Some(Power::Unknown(why)) = found.map(|machine| machine.state().power) {
            let cure = "make the host answer, then run the command again";
            cx.screen.warning(&format!("the state of node {} is unknown: {why}", spec.name), cure);
            nodes.push(NodeStatus::unknown(&node, cluster.spec.primary().name == spec.name));
            continue;
        }
        let machine = found.filter(|machine| machine.state().power == Power::On);
        if machine.is_none() && spec.power == WantedPower::Running {
            let text = format!("node {} crashed or was killed", spec.name);
            let flag = profile_flag(&cx.name);
            cx.screen.warning(&text, &format!("`flotilla start{flag}` starts it again with its data"));
        }
        let mut status = status_of(cx, &cluster, &node, machine.map(AsRef::as_ref))?;
        if let Some(certificates) = certificates {
            status.show(&cx.name, &certificates, Timestamp::now());
        }
        nodes.push(status);
    }
    if nodes.iter().any(NodeStatus::is_misconfigured) {
        warn_of_kubeconfig(cx);
    }
    // The only one that does not run cannot be asked, and would be waited for.
    let is_asked = cluster.spec.control_planes().count() > 1 || nodes.iter().any(NodeStatus::serves);
    let etcd = is_asked.then(|| etcd::status_of(cx, &cluster)).flatten();
    let about = About::new(&cluster, cx.store.created(&cx.name));
    let bits = nodes.iter().fold(0, |bits, node| bits | node.exit_bits());
    // One node is asked for itself.
    let etcd_bits = etcd.as_ref().filter(|_| only.is_none()).map_or(0, etcd::EtcdStatus::exit_bits);
    let bits = bits | etcd_bits;
    if cx.screen.is_json() {
        match (args.layout, nodes.as_slice()) {
            (LayoutArg::Cluster, _) => {
                let virtual_ip = cluster.virtual_ip();
                cx.screen.json(&ClusterStatus::of(cx.name.as_ref(), about, &nodes, virtual_ip, etcd));
            }
            // As minikube has it, and scripts know it.
            (LayoutArg::Nodes, [only]) => cx.screen.json(only),
            (LayoutArg::Nodes, several) => cx.screen.json(&several),
        }
        return Ok(bits);
    }
    for node in &nodes {
        match &args.format {
            Some(template) => cx.screen.line(&fill_in(template, node)?),
            None => cx.screen.line(&node.full_text(cluster.virtual_ip())),
        }
    }
    if args.format.is_none() && only.is_none() {
        if let Some(etcd) = etcd {
            cx.screen.line(&etcd.text());
        }
        cx.screen.line(&about.text(cx.name.as_ref()));
    }
    Ok(bits)
}

fn status_of(
    cx: &Cx,
    cluster: &Cluster,
    node: &Node,
    machine: Option<&dyn Machine>,
) -> Result<NodeStatus, EngineError> {
    let engine = cx.engine();
    let is_control_plane = node.spec.role == Role::ControlPlane;
    let is_primary = cluster.spec.primary().name == node.spec.name;
    let mut status = NodeStatus::stopped(node, is_primary);
    let Some(machine) = machine else { return Ok(status) };
    status.host = "Running";
    status.pid = machine.pid();
    let health = cx.wait(engine.bootstrapper.health(cluster, node, machine));
    warn_of_silence(cx, &node.spec.name, health.unresponsive);
    status.kubelet = if health.kubelet { "Running" } else { "Stopped" };
    if !is_control_plane {
        return Ok(status);
    }
    let (state, access) = cx.wait(async {
        tokio::join!(
            engine.bootstrapper.observe(cluster, node, machine),
            engine.bootstrapper.access(cluster, machine),
        )
    });
    status.virtual_ip = health.holds_virtual_ip;
    status.api_server = match state {
        KubernetesState::Unreachable => "Stopped",
        KubernetesState::Paused => "Paused",
        // Where there are several it is another one that may have answered.
        _ if !health.api_server && cluster.spec.control_planes().count() > 1 => "Stopped",
        KubernetesState::Incomplete | KubernetesState::Complete => "Running",
    };
    let is_configured = match access? {
        Some(access) => is_configured(cx, cluster, &access),
        None => false,
    };
    status.kubeconfig = if is_configured { "Configured" } else { "Misconfigured" };
    Ok(status)
}

/// A file that cannot be read leads nowhere.
fn is_configured(cx: &Cx, cluster: &Cluster, access: &ApiAccess) -> bool {
    let name = cluster.name();
    if cluster.spec.control_planes().count() > 1 {
        return cx.kubeconfig().leads_to(name, access).unwrap_or(false);
    }
    cx.kubeconfig().has_entry(name, access).unwrap_or(false)
}

/// Says why, and what helps.
fn warn_of_kubeconfig(cx: &Cx) {
    let text = match cx.kubeconfig().refusal(&cx.name) {
        Some(refusal) => one_line(&refusal),
        None => format!("{} does not point to {}", cx.kubeconfig().path(&cx.name).display(), cx.name),
    };
    let cure = match cx.kubeconfig().refusal(&cx.name) {
        Some(_) => "fix it, then run `flotilla update-context`",
        None => "repair it with `flotilla update-context`",
    };
    cx.screen.warning(&text, cure);
}

/// Says of a node that its processes are frozen or stuck, which its services alone do not tell.
fn warn_of_silence(cx: &Cx, node: &NodeName, why: Option<Unresponsive>) {
    let what = match why {
        None => return,
        Some(Unresponsive::Frozen) => format!("node {node} is frozen"),
        Some(Unresponsive::Silent) => format!("node {node} does not answer"),
    };
    let flag = profile_flag(&cx.name);
    let hint = format!(
        "unfreeze it with `flotilla start{flag}`, or restart it with `flotilla node stop{flag} {node}` and `flotilla node start{flag} {node}`"
    );
    cx.screen.warning(&what, &hint);
}
