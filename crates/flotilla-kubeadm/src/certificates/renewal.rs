//! The renewal of certificates by the real kubeadm, with the authorities' keys that control planes have.
//!
//! ```text
//! each control plane: kubeadm certs renew ─▶ one admin.conf for all ─▶ kubelets' certificates ─▶ restart
//! ```
//!
//! Programs that read a certificate only at their start are restarted: the control plane's static pods and the
//! kubelet. A node keeps its name, its Node object and its pods. An interrupted renewal leaves its configuration in
//! the node, and the next `start` repeats it.

use std::sync::Arc;
use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Certificates, Cmd, Machine};
use flotilla_spec::Role;
use futures::future::{join_all, try_join_all};
use jiff::Timestamp;

use super::{KUBELET_CLIENT, KUBELET_SERVER, expiry_of_user, look};
use crate::config::{self, Facts, VALIDITY};
use crate::credentials::Credentials;
use crate::files::{ADMIN_CONF, CONFIG, CRI_SOCKET, KUBELET_CERTIFICATE, KUBELET_CONF, RENEWAL_CONFIG};
use crate::phase::{self, in_node, run};
use crate::{disk, kubelet, rotation, serving};

/// Takes seconds, also on a slow host; longer only if containerd does not start.
const RESTART: Duration = Duration::from_mins(2);
const SIGN: Duration = Duration::from_mins(1);

/// Renews due certificates in these machines, which are on. `control_planes` are the machines of all control planes
/// that are on and members: all of them get the same administrator's certificate, and the first signs for workers.
pub(crate) async fn renew(
    cluster: &Cluster,
    due: &[(Node, Arc<dyn Machine>)],
    control_planes: &[Arc<dyn Machine>],
) -> Result<(), BootstrapError> {
    let looks = due.iter().map(|(node, machine)| async move {
        Ok::<_, BootstrapError>(Renewal {
            node,
            machine: machine.as_ref(),
            certificates: look(machine.as_ref()).await?,
        })
    });
    let renewals = try_join_all(looks).await?;
    let now = Timestamp::now();
    // A failure does not cancel the others: their processes would be left behind.
    let renewed = join_all(renewals.iter().map(|renewal| renewal.renew_control_plane(cluster, now))).await;
    renewed.into_iter().collect::<Result<(), _>>()?;
    share_admin(control_planes).await?;
    let renewed = join_all(renewals.iter().map(|renewal| async {
        renewal.renew_kubelet(cluster, control_planes, now).await?;
        renewal.restart(now).await
    }));
    renewed.await.into_iter().collect()
}

/// The renewal in one machine.
struct Renewal<'a> {
    node: &'a Node,
    machine: &'a dyn Machine,
    certificates: Certificates,
}

impl Renewal<'_> {
    fn is_due(&self, now: Timestamp, is_it: impl Fn(&str) -> bool) -> bool {
        self.certificates.due(now).any(|certificate| is_it(certificate.name))
    }

    /// Whether certificates of the control plane are due, or an interrupted renewal has to be repeated.
    fn concerns_control_plane(&self, now: Timestamp) -> bool {
        let is_kubelets = |name: &str| [KUBELET_CLIENT, KUBELET_SERVER].contains(&name);
        let is_due = self.certificates.unfinished || self.is_due(now, |name| !is_kubelets(name));
        self.node.spec.role == Role::ControlPlane && is_due
    }

    /// Renews all certificates of kubeadm, also those that are not due: then all expire together.
    async fn renew_control_plane(&self, cluster: &Cluster, now: Timestamp) -> Result<(), BootstrapError> {
        if !self.concerns_control_plane(now) {
            return Ok(());
        }
        // Of this configuration only the validity matters here: names and addresses are those of the old certificates.
        let configuration = config::render(cluster, self.node, Facts { cgroup_v1: false });
        phase::put_configuration(self.machine, RENEWAL_CONFIG, &configuration, &[]).await?;
        phase::renew_certificates(self.machine).await
    }

    /// Gives the kubelet a client certificate signed by the cluster's authority. The kubelet could request one itself
    /// only while its old one is valid.
    async fn renew_kubelet(
        &self,
        cluster: &Cluster,
        control_planes: &[Arc<dyn Machine>],
        now: Timestamp,
    ) -> Result<(), BootstrapError> {
        let machine = self.machine;
        if self.is_due(now, |name| name == KUBELET_SERVER) {
            let remove = "rm -f /var/lib/kubelet/pki/kubelet.crt /var/lib/kubelet/pki/kubelet.key";
            run(machine, "remove the kubelet's old certificate", Cmd::sh(remove)).await?;
            serving::ensure(cluster, self.node, machine).await?;
        }
        if !self.is_due(now, |name| name == KUBELET_CLIENT) {
            return Ok(());
        }
        let own = (self.node.spec.role == Role::ControlPlane).then_some(machine);
        let Some(signer) = own.or_else(|| control_planes.first().map(AsRef::as_ref)) else {
            return Err(BootstrapError::Api {
                action: format!("renew the kubelet's certificate of node {}", machine.name()),
                source: "no control plane is running".into(),
            });
        };
        let pem = sign(signer, self.node.spec.name.as_ref()).await?;
        // In the kubelet's own layout: it does not rotate a certificate that is not behind a link.
        let path = format!("/var/lib/kubelet/pki/kubelet-client-flotilla-{}.pem", now.as_second());
        let put = machine.guest().write(&path, 0o600, &pem).await;
        put.map_err(in_node("write the kubelet's certificate", machine))?;
        let link = format!(
            "ln -sf {path} {KUBELET_CERTIFICATE}.new && mv -f {KUBELET_CERTIFICATE}.new {KUBELET_CERTIFICATE}"
        );
        run(machine, "write the kubelet's certificate", Cmd::sh(link)).await?;
        rotation::ensure(machine).await
    }

    async fn restart(&self, now: Timestamp) -> Result<(), BootstrapError> {
        if self.concerns_control_plane(now) {
            let restart = Cmd { limit: Some(RESTART), ..Cmd::sh(restart_control_plane()) };
            return run(self.machine, "restart the control plane", restart).await.map(drop);
        }
        kubelet::restart(self.machine).await
    }
}

/// Containerd may still be starting if the machine has just booted.
fn restart_control_plane() -> String {
    let crictl = format!("crictl --runtime-endpoint {CRI_SOCKET}");
    format!(
        "set -e
         systemctl stop kubelet
         until pods=$({crictl} pods --quiet --namespace kube-system --label tier=control-plane); do sleep 0.2; done
         echo $pods | xargs -r {crictl} stopp
         rm -f {RENEWAL_CONFIG}
         systemctl start kubelet"
    )
}

/// A certificate by which the API knows the kubelet of a node, and its key.
async fn sign(signer: &dyn Machine, node: &str) -> Result<Vec<u8>, BootstrapError> {
    let client = format!("--client-name=system:node:{node}");
    let validity = format!("--validity-period={VALIDITY}");
    let words =
        ["kubeadm", "kubeconfig", "user", "--config", CONFIG, &client, "--org=system:nodes", &validity];
    let action = "sign the kubelet's certificate";
    let output = run(signer, action, Cmd { limit: Some(SIGN), ..Cmd::new(words) }).await?;
    let unreadable =
        |source| BootstrapError::Api { action: format!("{action} of node {node}"), source: Box::new(source) };
    let credentials = Credentials::parse(KUBELET_CONF, &output.stdout).map_err(unreadable)?;
    let access = credentials.access(String::new()).map_err(unreadable)?;
    Ok([access.client_cert_pem, access.client_key_pem].concat())
}

/// Gives all control planes the admin.conf that expires last, so that all have the same one.
async fn share_admin(control_planes: &[Arc<dyn Machine>]) -> Result<(), BootstrapError> {
    let reads = control_planes.iter().map(|machine| disk::read(machine.as_ref(), ADMIN_CONF));
    let files = try_join_all(reads).await?;
    let longest = files.iter().flatten().max_by_key(|file| expiry_of_user(file));
    let Some(longest) = longest.filter(|file| expiry_of_user(file).is_some()) else { return Ok(()) };
    let others = control_planes.iter().zip(&files).filter(|(_, file)| file.as_ref() != Some(longest));
    let shared = others.map(|(machine, _)| async move {
        let put = machine.guest().write(ADMIN_CONF, 0o600, longest).await;
        put.map_err(in_node("copy the administrator's credentials", machine.as_ref()))
    });
    try_join_all(shared).await.map(drop)
}

#[cfg(test)]
mod tests;
