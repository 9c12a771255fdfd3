//! Who leads among the controllers and schedulers of all control planes. A new one would wait twenty seconds for a leader
//! that is dead, and until then the services' endpoints would stay as they were.

use std::collections::BTreeMap;

use flotilla_core::cluster::Cluster;
use flotilla_core::{BootstrapError, GuestError, Machine, node};
use flotilla_node_api::NodeStatus;
use flotilla_spec::WantedPower;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use crate::api::{self, SYSTEM, insist};
use crate::patience::Cancelled;
use crate::phase::in_node;

/// Those of which one among all control planes is at work.
const LEADERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// A clock that is further back than this was set back: the kernel counts time more exactly.
const EXACTNESS: SignedDuration = SignedDuration::from_secs(2);

/// Takes the leadership from all.
pub(crate) async fn release_all(client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    release_if(client, |_| true, cancelled).await
}

/// Takes it from those in a node that is no more.
pub(crate) async fn release_of(
    client: &Client,
    node: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    release_if(client, |lease| holder(lease) == Some(node), cancelled).await
}

/// Takes it from those that are proven dead: by a machine that is off, or that was turned on after they had it last. A lease
/// that only looks old proves nothing, since clocks jump. `machines` are those of all control planes that are on and to run.
pub(crate) async fn release_void<'a>(
    client: &Client,
    cluster: &Cluster,
    machines: impl Iterator<Item = &'a dyn Machine>,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let mut lives = BTreeMap::new();
    for machine in machines {
        let life = match node::status(machine).await {
            Ok(status) => Life::of(&status),
            // Its leases are left to expire.
            Err(GuestError::OtherVersion { .. }) => None,
            Err(error) => return Err(in_node("read the uptime of the node", machine)(error)),
        };
        lives.insert(machine.name().to_string(), life);
    }
    let is_to_run = |name: &str| {
        let mut control_planes = cluster.spec.control_planes();
        control_planes.any(|node| node.name.as_ref() == name && node.power == WantedPower::Running)
    };
    let is_dead = |lease: &Lease| match holder(lease).map(|node| (node, lives.get(node))) {
        Some((_, Some(life))) => life.is_some_and(|life| life.began_after(lease)),
        // It is off, or would be among the machines.
        Some((node, None)) => is_to_run(node),
        None => false,
    };
    release_if(client, is_dead, cancelled).await
}

async fn release_if(
    client: &Client,
    is_over: impl Fn(&Lease) -> bool,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let leases = Api::<Lease>::namespaced(client.clone(), SYSTEM);
    for name in LEADERS {
        insist(format!("release the lease of the stopped {name}"), cancelled, || async {
            match leases.get_opt(name).await? {
                Some(lease) if is_over(&lease) => match api::delete(&leases, name, &as_seen(&lease)).await {
                    // Renewed or taken over since.
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                    deleted => deleted,
                },
                _ => Ok(()),
            }
        })
        .await?;
    }
    Ok(())
}

/// Deletes it only if it is still the same.
fn as_seen(lease: &Lease) -> DeleteParams {
    let (uid, resource_version) = (lease.uid(), lease.resource_version());
    DeleteParams::default().preconditions(Preconditions { uid, resource_version })
}

/// The node of the one that leads: it is called after its host, with a number.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()?.rsplit_once('_').map(|(host, _)| host)
}

/// When a machine was turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    /// By the clock of that moment.
    began: Timestamp,
    /// How long ago that is, whatever became of the clock.
    age: SignedDuration,
}

impl Life {
    /// What a machine says of itself; none if that cannot be.
    fn of(status: &NodeStatus) -> Option<Self> {
        let age = SignedDuration::from_millis(i64::try_from(status.up_for_ms).ok()?);
        Some(Self { began: Timestamp::from_second(status.booted_at).ok()?, age })
    }

    /// Whether a lease was last renewed before the machine was turned on. Both are times of the clock as it was then, so that
    /// a clock that was set forward since does not matter. One that was set back does: then nothing is known.
    fn began_after(self, lease: &Lease) -> bool {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let was_set_back = Timestamp::now() - self.age < self.began - EXACTNESS;
        renewed.is_some_and(|renewed| renewed.0 < self.began) && !was_set_back
    }
}

#[cfg(test)]
mod tests;
