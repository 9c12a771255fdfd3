//! A control plane that leaves the others, to be turned off or removed.

use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Membership, Power, node};
use kube::Client;

use crate::api::{self, PATIENT};
use crate::credentials;
use crate::etcd;
use crate::files::{CRI_SOCKET, FOUNDING};
use crate::leader;
use crate::marks;
use crate::mirror;
use crate::patience::{Cancelled, Patience};
use crate::phase::{in_node, run};
use crate::stopped;

/// For the virtual address to be with another.
const ADDRESS: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
const RESET: Duration = Duration::from_mins(2);

/// Takes a control plane out of the cluster's, whatever of that is done already.
///
/// Its marks go first: what is killed in the middle is no member any more, and its next join clears up.
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
        (None, Some(machine)) => marks::remove_from_disk(machine)?,
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

/// Stops being a member in our eyes, having the virtual address, and answering for the API: its server takes itself off
/// the list of those that pods ask. Nothing else is done while the address is still here: the others could not be asked.
async fn give_up(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let marks = Cmd::new(["rm", "-f"].into_iter().chain(marks::ALL));
    run(machine, "leave the cluster", marks).await?;
    stop_keepalived(machine).await?;
    run(machine, "stop the kubelet", Cmd::new(["systemctl", "stop", "kubelet"])).await?;
    // It may have ended already.
    let crictl = format!("crictl --runtime-endpoint {CRI_SOCKET}");
    let stop =
        format!("{crictl} ps --quiet --name '^kube-apiserver$' | xargs -r {crictl} stop --timeout 3 || true");
    run(machine, "stop the API server", Cmd::sh(stop)).await.map(drop)
}

/// Fails if the address is still here: of keepalived's two processes PID 1 knows the first.
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

/// Makes a machine out of a control plane, by kubeadm. It is not told of the cluster, which would be asked to remove a
/// member of etcd and may not answer.
///
/// The data of one that has left before, or never joined, is deleted: the others have it. One that is still marked as a
/// member may have data that nobody else has, and that is set aside.
pub(crate) async fn clear(machine: &dyn Machine) -> Result<(), BootstrapError> {
    if marks::membership(machine).await? != Membership::None {
        etcd::set_aside(machine).await?;
    }
    let (action, marks) = ("reset the control plane", marks::ALL.join(" "));
    let marks = format!("rm -f {marks} /etc/kubernetes/admin.conf /etc/kubernetes/super-admin.conf");
    run(machine, action, Cmd::sh(marks)).await?;
    // Without a shell, which would end with us and leave the program running.
    let reset = Cmd::new(["kubeadm", "reset", "--force", "--cri-socket", CRI_SOCKET]);
    run(machine, action, Cmd { limit: Some(RESET), ..reset }).await?;
    let data = format!("rm -rf /var/lib/etcd/member && rm -f {FOUNDING}");
    run(machine, action, Cmd::sh(data)).await.map(drop)
}

async fn wait_for_answer(client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let patience = Patience::new("the API's answer by another control plane", ADDRESS, cancelled);
    while let Err(error) = api::serves(client).await {
        patience.pause(POLL, &[one_line(&error)]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
