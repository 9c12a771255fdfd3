//! Whether a cluster that exists can still have its address ranges: since it was made, the host may have got other
//! networks, of a VPN for instance.

use flotilla_core::{Cluster, Power, Subnet};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_engine::store::Ranges;
use flotilla_spec::error::{Requirement, SpecError};
use flotilla_spec::network::RangeUse;
use flotilla_spec::{ClusterName, ClusterSpec};

use crate::{Context, OpError};

const CODE: (&str, u8) = ("IF_SUBNETS_TAKEN", 71);

/// Refuses a cluster whose packets would go elsewhere. One that runs goes on, and so does one that is forced: then it
/// is only a warning.
pub(crate) async fn check(engine: &Engine<'_>, cluster: &Cluster, force: bool) -> Result<(), OpError> {
    let others = engine.fleet.subnets_in_use(cluster.name()).await.map_err(EngineError::from)?;
    let collisions = collisions(cluster, &others);
    if collisions.is_empty() {
        return Ok(());
    }
    let machines = engine.machines(cluster).await?;
    let runs = machines.values().any(|machine| machine.state().power == Power::On);
    let (fatal, harmless): (Vec<_>, Vec<_>) =
        collisions.into_iter().partition(|collision| collision.loses && !runs && !force);
    for collision in harmless {
        engine.warn(format!("{} ({})", collision.text, collision.cure));
    }
    let problems = fatal.into_iter().map(|Collision { key, text, cure, .. }| {
        let requirement = Requirement { node: None, key, item: None };
        SpecError::Unmet { requirement, why: text, cure, code: CODE }
    });
    super::refuse(problems.collect(), None)
}

/// The address ranges that others on this host use.
pub(crate) async fn in_use(cx: &Context<'_>, except: &ClusterName) -> Result<Ranges, OpError> {
    let used = cx.fleet.subnets_in_use(except).await.map_err(EngineError::from)?;
    // Also those of clusters that are stopped, or are being made just now. First: they name the cluster.
    let Ranges { taken, mut unknown } = cx.store.ranges(except)?;
    // The kernel knows those of a cluster that runs, whatever is left of its state.
    unknown.retain(|name| !used.iter().any(|subnet| subnet.user == format!("the cluster {name}")));
    let used = used.into_iter().map(|subnet| (subnet.range, subnet.user));
    Ok(Ranges { taken: taken.into_iter().chain(used).collect(), unknown })
}

/// Gives the services of a new cluster a free range, where the default one would hide a network of this host. If none is free,
/// the check of the ranges says by whom the default one is used.
pub(crate) async fn choose_services(cx: &Context<'_>, spec: &mut ClusterSpec) -> Result<(), OpError> {
    let used = in_use(cx, &spec.name).await?;
    let others: Vec<_> = used.taken.into_iter().map(|(range, _)| range).collect();
    let usual = spec.network.service_subnet;
    if let Some(chosen) = spec.network.choose_service_subnet(&others).filter(|chosen| *chosen != usual) {
        tracing::debug!("the service subnet is {chosen}: {usual} would hide a network of this host");
        spec.network.service_subnet = chosen;
    }
    Ok(())
}

/// A range of the cluster's that overlaps one of others.
#[derive(Debug, PartialEq, Eq)]
struct Collision {
    key: &'static str,
    text: String,
    cure: String,
    /// Packets for the cluster go to the others.
    loses: bool,
}

fn collisions(cluster: &Cluster, others: &[Subnet]) -> Vec<Collision> {
    let ranges = [
        (RangeUse::Nodes, "subnet", cluster.allocations.subnet),
        (RangeUse::Pods, "podSubnet", cluster.allocations.pod_subnet),
        (RangeUse::Services, "serviceSubnet", cluster.spec.network.service_subnet),
    ];
    let mut found = Vec::new();
    for (usage, key, range) in ranges {
        for other in others {
            let by = &other.user;
            let is_first = other.before_main && other.range.contains(&range);
            // A wider one only loses a part to the cluster's.
            let is_narrower = range.contains(&other.range);
            let (text, cure, loses) = match usage {
                // Nothing is sent there: kube-proxy translates every such address.
                RangeUse::Services if is_narrower => (
                    format!("the {usage} {range} hides {by} from pods"),
                    "create a new cluster with another range: --service-cluster-ip-range".to_owned(),
                    false,
                ),
                RangeUse::Nodes | RangeUse::Pods if is_first || is_narrower => (
                    format!("packets for the {usage} {range} are routed to {by}"),
                    if other.before_main {
                        format!(
                            "give the cluster priority: `ip rule add to {range} lookup main priority 100`"
                        )
                    } else {
                        "disconnect it, or create a new cluster, which gets another range".to_owned()
                    },
                    // Who has all packets may except the host's own networks once they are there.
                    other.range.prefix_len() > 0,
                ),
                _ => continue,
            };
            found.push(Collision { key, text, cure, loses });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake;

    /// What is reported of a cluster with 10.213.0.0/24 for nodes and 10.244.0.0/16 for pods.
    fn told(range: &str, user: &str, before_main: bool) -> String {
        let other = Subnet { range: range.parse().unwrap(), user: user.to_owned(), before_main };
        let found = collisions(&fake::cluster("10.213.0.0/24"), &[other]);
        let told = found.into_iter().map(|Collision { text, cure, loses, .. }| {
            format!("{}: {text} ({cure})", if loses { "loses" } else { "keeps" })
        });
        told.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_route_that_is_narrower_or_comes_first_takes_the_packets() {
        insta::assert_snapshot!(told("10.213.0.0/24", "the link wlan0", false), @"loses: packets for the node subnet 10.213.0.0/24 are routed to the link wlan0 (disconnect it, or create a new cluster, which gets another range)");
        insta::assert_snapshot!(told("10.244.8.0/24", "the route to 10.244.8.0/24 by tun0", false), @"loses: packets for the pod subnet 10.244.0.0/16 are routed to the route to 10.244.8.0/24 by tun0 (disconnect it, or create a new cluster, which gets another range)");
        insta::assert_snapshot!(told("10.213.0.0/16", "the route to 10.213.0.0/16 by tailscale0", true), @"loses: packets for the node subnet 10.213.0.0/24 are routed to the route to 10.213.0.0/16 by tailscale0 (give the cluster priority: `ip rule add to 10.213.0.0/24 lookup main priority 100`)");
        let exit_node = told("0.0.0.0/0", "the route to 0.0.0.0/0 by tailscale0", true);
        assert_eq!(exit_node.lines().filter(|line| line.starts_with("keeps")).count(), 2, "{exit_node}");
    }

    #[test]
    fn a_wider_route_loses_a_part_and_the_cluster_nothing() {
        for range in ["10.0.0.0/8", "0.0.0.0/1", "192.168.1.0/24"] {
            assert_eq!(told(range, "a VPN", false), "");
        }
    }

    #[test]
    fn services_hide_what_is_there() {
        insta::assert_snapshot!(told("10.100.0.0/16", "the link eth0", false), @"keeps: the service subnet 10.96.0.0/12 hides the link eth0 from pods (create a new cluster with another range: --service-cluster-ip-range)");
    }
}
