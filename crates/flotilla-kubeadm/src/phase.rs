//! kubeadm's phases, each a process in the node.

use std::time::Duration;

use flotilla_engine::port::{BootstrapError, Cmd, ExecError, ExecOutput, Machine};

use crate::files::CONFIG;

/// kubeadm itself gives up after a minute or two; this is for the case that it does not.
const LIMIT: Duration = Duration::from_mins(4);

/// The phases up to the kubelet's start, with etcd and the API server as the only static pods: the others would
/// fight them for the processor, and their mirror pods are refused before the node has registered.
///
/// Left out: what [`crate::complete`] does afterwards, the preflight checks (the engine has its own), and
/// kubelet-finalize, whose restart of the kubelet costs every readiness probe up to ten seconds.
const NOT_YET: &str = "preflight,control-plane/controller-manager,control-plane/scheduler,wait-control-plane,\
     upload-config,upload-certs,mark-control-plane,bootstrap-token,kubelet-finalize,addon,show-join-command";

/// Runs `kubeadm init` as far as the kubelet's start.
pub(crate) async fn init(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let skip = format!("--skip-phases={NOT_YET}");
    kubeadm(machine, "initialise the control plane", &["init", "--config", CONFIG, &skip]).await
}

/// Puts kubeadm's and the kubelets' settings into the cluster, for nodes that join.
pub(crate) async fn upload_config(machine: &dyn Machine, kubeconfig: &str) -> Result<(), BootstrapError> {
    let phase = ["upload-config", "all", "--kubeconfig", kubeconfig];
    init_phase(machine, "upload the settings", &phase).await
}

/// Makes what bootstrap tokens need: rights, and the cluster-info that a joining node reads.
pub(crate) async fn bootstrap_token(machine: &dyn Machine, kubeconfig: &str) -> Result<(), BootstrapError> {
    let phase = ["bootstrap-token", "--skip-token-print", "--kubeconfig", kubeconfig];
    init_phase(machine, "prepare the joining of nodes", &phase).await
}

pub(crate) async fn kube_proxy(machine: &dyn Machine, kubeconfig: &str) -> Result<(), BootstrapError> {
    init_phase(machine, "install kube-proxy", &["addon", "kube-proxy", "--kubeconfig", kubeconfig]).await
}

pub(crate) async fn coredns(machine: &dyn Machine, kubeconfig: &str) -> Result<(), BootstrapError> {
    init_phase(machine, "install CoreDNS", &["addon", "coredns", "--kubeconfig", kubeconfig]).await
}

pub(crate) async fn controller_manager(machine: &dyn Machine) -> Result<(), BootstrapError> {
    init_phase(machine, "start the controller manager", &["control-plane", "controller-manager"]).await
}

pub(crate) async fn scheduler(machine: &dyn Machine) -> Result<(), BootstrapError> {
    init_phase(machine, "start the scheduler", &["control-plane", "scheduler"]).await
}

/// Labels the node. The phase takes no kubeconfig: it uses admin.conf, and with super-admin.conf gives admin.conf
/// its rights first.
pub(crate) async fn mark_control_plane(machine: &dyn Machine) -> Result<(), BootstrapError> {
    init_phase(machine, "mark the control plane", &["mark-control-plane"]).await
}

/// Joins a worker. Without the preflight checks, as with [`init`].
pub(crate) async fn join(machine: &dyn Machine) -> Result<(), BootstrapError> {
    kubeadm(machine, "join the cluster", &["join", "--config", CONFIG, "--skip-phases=preflight"]).await
}

async fn init_phase(
    machine: &dyn Machine,
    action: &'static str,
    phase: &[&str],
) -> Result<(), BootstrapError> {
    kubeadm(machine, action, &[&["init", "phase"], phase, &["--config", CONFIG]].concat()).await
}

async fn kubeadm(machine: &dyn Machine, action: &'static str, args: &[&str]) -> Result<(), BootstrapError> {
    let words = ["kubeadm"].iter().chain(args).copied();
    run(machine, action, Cmd { limit: Some(LIMIT), ..Cmd::new(words) }).await.map(drop)
}

/// Runs a program in the node; an error says what it was for.
pub(crate) async fn run(
    machine: &dyn Machine,
    action: &'static str,
    cmd: Cmd,
) -> Result<ExecOutput, BootstrapError> {
    machine.exec().run(cmd).await.map_err(in_node(action, machine))
}

/// The error of something that failed in a node.
pub(crate) fn in_node(
    action: &'static str,
    machine: &dyn Machine,
) -> impl FnOnce(ExecError) -> BootstrapError {
    let node = machine.name().to_string();
    move |source| BootstrapError::Node { action, node, source }
}
