//! Joins a control plane with the real `kubeadm join` and copies of the authorities' keys.
//!
//! ```text
//! clear ─▶ keys, settings, kubelet's certificate ─▶ prepare ─▶ etcd ─▶ labels, API server's first answer
//!                                                    in parallel │ one by one │ in parallel
//! ```
//!
//! The kubelet gets its certificate from another control plane, because it would request one from its own API server,
//! which does not run yet. etcd adds one member at a time; other parts of several joins run in parallel.

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Cmd, Machine};
use futures::future::try_join_all;
use kube::Client;
use tokio::sync::Mutex;

use crate::alone;
use crate::config;
use crate::credentials::Credentials;
use crate::etcd;
use crate::files::{CONFIG, JOIN_CONFIG};
use crate::init;
use crate::join::put_discovery;
use crate::leave;
use crate::mirror;
use crate::patience::Cancelled;
use crate::phase::{self, in_node, run};
use crate::rotation;
use crate::serving;
use crate::stopped;
use crate::token::Token;

/// Files that all control planes of a cluster share and workers never get. The administrator's file is one of them:
/// the user's clients have its certificate.
pub(crate) const SHARED: [&str; 9] = [
    "pki/ca.crt",
    "pki/ca.key",
    "pki/front-proxy-ca.crt",
    "pki/front-proxy-ca.key",
    "pki/sa.pub",
    "pki/sa.key",
    "pki/etcd/ca.crt",
    "pki/etcd/ca.key",
    "admin.conf",
];

/// Prints whether the machine has leftovers of an earlier join or membership.
pub(crate) const LOOK: &str = "ls -d /etc/kubernetes/*.conf /etc/kubernetes/pki /etc/kubernetes/manifests/*.yaml /var/lib/etcd/member \
     2>/dev/null || true";

/// The participants of a join.
pub(crate) struct Joining<'a> {
    pub cluster: &'a Cluster,
    pub node: &'a Node,
    pub machine: &'a dyn Machine,
    /// A control plane that is a member.
    pub via: &'a dyn Machine,
    pub client: &'a Client,
    pub credentials: &'a Credentials,
    /// Held while etcd adds the member.
    pub membership: &'a Mutex<()>,
    pub cancelled: &'a Cancelled,
}

/// Joins the machine and waits for a healthy control plane.
pub(crate) async fn join(this: &Joining<'_>) -> Result<(), BootstrapError> {
    this.clear().await?;
    let token = Token::create(this.client, this.node, this.cancelled).await?;
    let joined = this.join(&token).await;
    // Also after a failure. If this fails, the token expires by itself.
    let removed = token.remove(this.client, this.cancelled).await;
    joined.and(removed)
}

impl Joining<'_> {
    /// Removes leftovers of a killed join or leave, here and in etcd.
    async fn clear(&self) -> Result<(), BootstrapError> {
        let name = self.node.spec.name.to_string();
        let look = format!("{}; {LOOK}", alone::forget());
        let left = run(self.machine, "look for an unfinished join", Cmd::sh(look)).await?;
        {
            let _membership = self.membership.lock().await;
            etcd::remove_node(self.via, &name, self.node.address, self.cancelled).await?;
        }
        if !left.text().is_empty() {
            leave::clear(self.machine).await?;
        }
        mirror::forget(self.client, &name, self.cancelled).await?;
        stopped::mark(self.client, &name, self.cancelled).await
    }

    async fn join(&self, token: &Token) -> Result<(), BootstrapError> {
        let (node, machine) = (self.node, self.machine);
        hand_over(self.via, machine).await?;
        put_discovery(self.cluster, machine, self.credentials).await?;
        // The same file as on the first control plane: this node may complete the cluster later.
        let configuration = config::render(self.cluster, node, init::facts(machine).await?);
        let patches = config::patches(self.cluster, &node.spec);
        phase::put_configuration(machine, CONFIG, &configuration, &patches).await?;
        let configuration = config::render_join(self.cluster, node, &token.text(), self.cancelled.limit());
        phase::put_configuration(machine, JOIN_CONFIG, &configuration, &[]).await?;
        serving::ensure(self.cluster, node, machine).await?;
        phase::kubelet_conf(machine).await?;
        let limit = self.cancelled.limit();
        phase::join_prepare(machine, limit).await?;
        {
            let _membership = self.membership.lock().await;
            phase::join_etcd(machine, limit).await?;
        }
        phase::join_finish(machine, limit).await?;
        rotation::ensure(machine).await?;
        // A control plane that left before has released the virtual IP.
        let keepalived = Cmd::new(["systemctl", "start", "keepalived"]);
        run(machine, "start keepalived", keepalived).await.map(drop)
    }
}

/// Copies the shared files from one control plane to another.
pub(crate) async fn hand_over(from: &dyn Machine, to: &dyn Machine) -> Result<(), BootstrapError> {
    let files = SHARED.map(|file| async move {
        let path = format!("/etc/kubernetes/{file}");
        let found = from.guest().read(&path).await;
        let bytes = found.map_err(in_node("read the authorities' keys", from))?;
        let bytes = bytes.ok_or_else(|| BootstrapError::Api {
            action: format!("hand over the authorities' keys of node {}", from.name()),
            source: format!("there is no {path}").into(),
        })?;
        let put = to.guest().write(&path, 0o600, &bytes).await;
        put.map_err(in_node("write the authorities' keys", to))
    });
    try_join_all(files).await.map(drop)
}

#[cfg(test)]
mod tests;
