//! A control plane that leaves the others, to be turned off or removed.

use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Membership, Power, node};
use kube::Client;

use crate::api::{self, PATIENT};
use crate::credentials;
use crate::etcd;
use crate::files::{ADMIN_CONF, CRI_SOCKET, SUPER_ADMIN_CONF};
use crate::host_mounts::DETACH;
use crate::leader;
use crate::membership;
use crate::mirror;
use crate::patience::{Cancelled, Patience};
use crate::phase::{in_node, run};
use crate::stopped;

/// Until another control plane holds the virtual IP.
const ADDRESS: Duration = Duration::from_secs(30);
const RESET: Duration = Duration::from_mins(2);

/// Removes a control plane from the cluster, and resumes if that was interrupted.
///
/// Its recorded membership ends first: if we are killed in the middle, the node counts as not joined, and its next join
/// cleans up.
pub(crate) async fn leave(
    cluster: &Cluster,
    node: &Node,
    machine: Option<&dyn Machine>,
    via: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(via).await?, PATIENT).await?;
    leave_by(&client, node, machine, via, cancelled).await
}

async fn leave_by(
    client: &Client,
    node: &Node,
    machine: Option<&dyn Machine>,
    via: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let name = node.spec.name.to_string();
    let on = machine.filter(|machine| machine.state().power == Power::On);
    match (on, machine) {
        (Some(machine), _) => give_up(machine).await?,
        (None, Some(machine)) => membership::end(machine).await?,
        (None, None) => {}
    }
    etcd::remove_node(via, &name, node.address, cancelled).await?;
    etcd::wait_until_healthy(via, cancelled).await?;
    wait_for_answer(client, cancelled).await?;
    leader::release_of(client, &name, cancelled).await?;
    mirror::forget(client, &name, cancelled).await?;
    stopped::mark(client, &name, cancelled).await?;
    match on {
        Some(machine) => clear(machine).await,
        None => Ok(()),
    }
}

/// Ends the recorded membership, releases the virtual IP and stops the API server, which removes itself from the endpoints
/// of the API's service. The virtual IP goes before anything else: while this node holds it, no other API server can be
/// reached there.
async fn give_up(machine: &dyn Machine) -> Result<(), BootstrapError> {
    membership::end(machine).await?;
    stop_keepalived(machine).await?;
    run(machine, "stop the kubelet", Cmd::new(["systemctl", "stop", "kubelet"])).await?;
    // It may have ended already.
    let crictl = format!("crictl --runtime-endpoint {CRI_SOCKET}");
    let stop =
        format!("{crictl} ps --quiet --name '^kube-apiserver$' | xargs -r {crictl} stop --timeout 3 || true");
    run(machine, "stop the API server", Cmd::sh(stop)).await.map(drop)
}

/// Fails if the node still holds the virtual IP: PID 1 knows only the first of keepalived's two processes.
async fn stop_keepalived(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let action = "release the virtual IP";
    run(machine, action, Cmd::new(["systemctl", "stop", "keepalived"])).await?;
    let goes_on = match node::status(machine).await {
        Ok(status) => status.holds_virtual_ip,
        // It cannot be asked, but it can leave.
        Err(GuestError::OtherVersion { .. }) => {
            let pids = run(machine, action, Cmd::sh("pidof keepalived || true")).await?;
            !pids.text().is_empty()
        }
        Err(error) => return Err(in_node(action, machine)(error)),
    };
    if goes_on {
        let action = format!("{action} of node {}", machine.name());
        return Err(BootstrapError::Api { action, source: "keepalived goes on".into() });
    }
    Ok(())
}

/// Resets the node with `kubeadm reset`, without giving it access to the cluster: it would ask etcd, which may not answer,
/// to remove the member.
///
/// The data of one that has left before, or never joined, is deleted: the others have it. One that is still recorded as
/// a member may have data that nobody else has, and that is set aside.
pub(crate) async fn clear(machine: &dyn Machine) -> Result<(), BootstrapError> {
    run(machine, "detach mounts of the host", Cmd::sh(DETACH)).await?;
    if membership::of(machine).await?.holds_data() {
        etcd::set_aside(machine).await?;
    }
    membership::end(machine).await?;
    let action = "reset the control plane";
    let administrators = Cmd::new(["rm", "-f", ADMIN_CONF, SUPER_ADMIN_CONF]);
    run(machine, action, administrators).await?;
    // Without a shell, which would end with us and leave the program running.
    let reset = Cmd::new(["kubeadm", "reset", "--force", "--cri-socket", CRI_SOCKET]);
    run(machine, action, Cmd { limit: Some(RESET), ..reset }).await?;
    run(machine, action, Cmd::new(["rm", "-rf", "/var/lib/etcd/member"])).await?;
    membership::set(machine, Membership::None).await
}

async fn wait_for_answer(client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let patience = Patience::within("an answer of the API from another control plane", ADDRESS, cancelled);
    while let Err(error) = api::serves(client).await {
        patience.pause(&[one_line(&error)]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
