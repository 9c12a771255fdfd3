//! kubeadm's phases, each a process in the node.

use std::pin::pin;
use std::time::Duration;

use flotilla_core::{BootstrapError, Cmd, ExecOutput, GuestError, Machine};

use crate::files::{CONFIG, FOUNDING_CONFIG, JOIN_CONFIG, PATCHES, RENEWAL_CONFIG};
use crate::kubelet::CrashWatch;

/// kubeadm itself gives up sooner; this is for the case that it does not.
const LIMIT: Duration = Duration::from_mins(10);

/// The phases up to the kubelet's start, with etcd and the API server as the only static pods: the others would
/// fight them for the processor, and their mirror pods are refused before the node has registered.
///
/// Left out: what [`crate::complete`] does afterwards, the preflight checks (the engine has its own), and
/// kubelet-finalize, whose restart of the kubelet costs every readiness probe up to ten seconds.
const NOT_YET: &str = "preflight,control-plane/controller-manager,control-plane/scheduler,wait-control-plane,\
     upload-config,upload-certs,mark-control-plane,bootstrap-token,kubelet-finalize,addon,show-join-command";

/// What makes the authorities, and the administrator that they know.
const ALL_BUT_CERTIFICATES: &str = "preflight,kubeconfig/kubelet,kubeconfig/controller-manager,kubeconfig/scheduler,etcd,control-plane,\
     kubelet-start,wait-control-plane,upload-config,upload-certs,mark-control-plane,bootstrap-token,kubelet-finalize,addon,\
     show-join-command";

/// Before the preflight checks and after the start of the kubelet; the former are left out as with [`init`].
const AFTER_KUBELET: &str =
    "preflight,check-etcd,etcd-join,kubelet-wait-bootstrap,control-plane-join,wait-control-plane";
const ALL_BUT_ETCD: &str = "preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap,control-plane-join,wait-control-plane";
const UP_TO_ETCD: &str = "preflight,control-plane-prepare,check-etcd,kubelet-start,etcd-join";

/// Writes kubeadm's configuration, with the patches in the directory beside it.
pub(crate) async fn put_configuration(
    machine: &dyn Machine,
    path: &str,
    configuration: &str,
    patches: &[(String, String)],
) -> Result<(), BootstrapError> {
    let patches = patches.iter().map(|(name, patch)| (format!("{PATCHES}/{name}"), patch.as_str()));
    for (path, content) in patches.chain([(path.to_owned(), configuration)]) {
        let put = machine.guest().write(&path, 0o600, content.as_bytes()).await;
        put.map_err(in_node("write kubeadm's configuration", machine))?;
    }
    Ok(())
}

/// Runs `kubeadm init` as far as the kubelet's start.
pub(crate) async fn init(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let skip = format!("--skip-phases={NOT_YET}");
    kubeadm(machine, "initialise the control plane", &["init", "--config", CONFIG, &skip]).await
}

/// Makes the authorities and the administrators of a cluster, for all who found it.
pub(crate) async fn authorities(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let skip = format!("--skip-phases={ALL_BUT_CERTIFICATES}");
    kubeadm(machine, "create the certificate authorities", &["init", "--config", CONFIG, &skip]).await
}

/// The same as [`init`] in a machine that founds the cluster together with others, once it has the authorities. One
/// administrator whom the API obeys before there is any rule is enough: it is in the machine that made the authorities.
pub(crate) async fn found(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let skip = format!("--skip-phases=kubeconfig/super-admin,{NOT_YET}");
    let args = ["init", "--config", FOUNDING_CONFIG, &skip];
    kubeadm(machine, "initialise the control plane together with others", &args).await
}

/// Puts settings into the cluster, for nodes that join: kubeadm's, the kubelets', or all.
pub(crate) async fn upload_config(
    machine: &dyn Machine,
    settings: &str,
    kubeconfig: &str,
) -> Result<(), BootstrapError> {
    let phase = ["upload-config", settings, "--kubeconfig", kubeconfig];
    init_phase(machine, "upload the settings", &phase).await
}

/// Makes what bootstrap tokens need: rights, and the cluster-info that a joining node reads.
pub(crate) async fn bootstrap_token(machine: &dyn Machine, kubeconfig: &str) -> Result<(), BootstrapError> {
    let phase = ["bootstrap-token", "--skip-token-print", "--kubeconfig", kubeconfig];
    init_phase(machine, "create bootstrap tokens", &phase).await
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

/// Signs the kubelet's first certificate, in a machine that has the authority's key.
pub(crate) async fn kubelet_conf(machine: &dyn Machine) -> Result<(), BootstrapError> {
    init_phase(machine, "create the kubelet's certificate", &["kubeconfig", "kubelet"]).await
}

/// Renews all certificates of a control plane, but for the authorities and the kubelet's. Needs no API.
pub(crate) async fn renew_certificates(machine: &dyn Machine) -> Result<(), BootstrapError> {
    kubeadm(machine, "renew the certificates", &["certs", "renew", "all", "--config", RENEWAL_CONFIG]).await
}

/// Joins a worker. Without the preflight checks, as with [`init`].
pub(crate) async fn join(machine: &dyn Machine, limit: Duration) -> Result<(), BootstrapError> {
    join_without(machine, CONFIG, "preflight", limit).await
}

/// The first part of a control plane's join: certificates, manifests, and the kubelet.
pub(crate) async fn join_prepare(machine: &dyn Machine, limit: Duration) -> Result<(), BootstrapError> {
    join_without(machine, JOIN_CONFIG, AFTER_KUBELET, limit).await
}

/// The second: a member of etcd with a vote.
pub(crate) async fn join_etcd(machine: &dyn Machine, limit: Duration) -> Result<(), BootstrapError> {
    join_without(machine, JOIN_CONFIG, ALL_BUT_ETCD, limit).await
}

/// The third: labels and taints, and an API server that answers.
pub(crate) async fn join_finish(machine: &dyn Machine, limit: Duration) -> Result<(), BootstrapError> {
    join_without(machine, JOIN_CONFIG, UP_TO_ETCD, limit).await
}

/// kubeadm waits for a kubelet that cannot live as patiently as for a slow one: then it is ended.
async fn join_without(
    machine: &dyn Machine,
    config: &str,
    phases: &str,
    limit: Duration,
) -> Result<(), BootstrapError> {
    let mut deaths = CrashWatch::from_now(machine).await?;
    let mut joined = pin!(kubeadm_join(machine, config, phases, limit));
    tokio::select! {
        done = &mut joined => done,
        crashing = deaths.too_many() => {
            let end = Cmd::sh("systemctl stop kubelet; killall kubeadm || true");
            let ended = run(machine, "end an unfinished join", end).await;
            // Not left behind: the next one would find it at work.
            drop(joined.await);
            ended.and(Err(crashing))
        }
    }
}

/// Its own timeouts are those of its configuration.
async fn kubeadm_join(
    machine: &dyn Machine,
    config: &str,
    phases: &str,
    limit: Duration,
) -> Result<(), BootstrapError> {
    let skip = format!("--skip-phases={phases}");
    let join = Cmd::new(["kubeadm", "join", "--config", config, &skip]);
    let limit = limit.saturating_add(LIMIT);
    run(machine, "join the cluster", join.within(limit)).await.map(drop)
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
    machine.guest().run(cmd).await.map_err(in_node(action, machine))
}

/// The error of something that failed in a node.
pub(crate) fn in_node(
    action: &'static str,
    machine: &dyn Machine,
) -> impl FnOnce(GuestError) -> BootstrapError {
    let node = machine.name().to_string();
    move |source| BootstrapError::Node { action, node, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake::FakeMachine;

    const JOIN: &str = "kubeadm join --config /etc/flotilla/kubeadm.yaml --skip-phases=preflight";
    const END: &str = "sh -c systemctl stop kubelet; killall kubeadm || true";

    #[tokio::test(start_paused = true)]
    async fn a_join_ends_with_a_kubelet_that_cannot_live_and_leaves_nothing_at_work() {
        let script = [("kubelet.log", Ok("panic: no such gate"))];
        let machine = FakeMachine::new(&[], &script);
        machine.set_statuses(&[0, 9], |status, deaths| status.units[1].deaths = *deaths);
        // kubeadm would wait for minutes: only its end ends it.
        machine.calls().hold(JOIN, END);
        let error = join(&machine, LIMIT).await.unwrap_err();
        assert!(matches!(error, BootstrapError::Crashing { .. }), "{error:?}");
        let log = machine.log();
        assert!(log.contains(&JOIN.to_owned()) && log.contains(&END.to_owned()), "{log:#?}");
    }

    #[tokio::test]
    async fn a_join_that_goes_well_is_not_disturbed() {
        let machine = FakeMachine::new(&[], &[]);
        join(&machine, LIMIT).await.unwrap();
        assert_eq!(machine.log().last().unwrap(), JOIN);
    }
}
