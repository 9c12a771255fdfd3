//! Published ports: a table of packet rules, replaced atomically.

use std::net::SocketAddrV4;

use flotilla_core::{Changed, NetworkNode, NetworkPlan};
use flotilla_linux::host::CommandError;
use flotilla_linux::net;
use flotilla_linux::nft::{Forward, Forwards, NftError, forward_table};
use flotilla_linux::resolver::Upstream;
use flotilla_linux::sysctl;
use flotilla_spec::{ClusterName, HostPort, NodeName};

use super::{BridgeNetwork, nft};
use crate::error::NativeError;
use crate::names::Names;

/// What comes between a port and the address that it leads to, in a rule's comment.
const TO: &str = " to ";
/// The same before the node's name.
const FOR: &str = " for ";

impl BridgeNetwork {
    pub(super) fn forwards(&self, plan: &NetworkPlan) -> Forwards {
        let names = self.names(&plan.cluster);
        Forwards {
            table: names.ports_table(),
            bridge: names.bridge(),
            inside: vec![plan.subnet, plan.pod_subnet],
            ports: plan
                .to_run()
                .flat_map(|node| node.ports.iter().map(move |port| forward(node, *port)))
                .collect(),
        }
    }

    /// Updates the published ports if they differ.
    pub(super) fn ensure_ports(&self, plan: &NetworkPlan) -> Result<Changed, NativeError> {
        let forwards = self.forwards(plan);
        let is_published = self.has_ports(plan, &forwards)?;
        if !is_published {
            self.nft(plan).apply(&forward_table(&forwards))?;
        }
        Ok(let_loopback_pass(&forwards, &Upstream::read()?)?.or((!is_published).into()))
    }

    /// Removes the published ports of a node.
    pub(super) fn close_ports(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, NativeError> {
        let (table, end) = (self.names(cluster).ports_table(), format!("{FOR}{node}"));
        match nft::any(&self.home).remove_commented(&table, |comment| comment.ends_with(&end)) {
            // Without an nft there are no rules of ours.
            Err(NftError::List { source: CommandError::NotFound { .. }, .. }) => Ok(Changed::No),
            closed => Ok((closed? == net::Changed::Yes).into()),
        }
    }

    /// Whether exactly these ports are published.
    pub(super) fn has_ports(&self, plan: &NetworkPlan, forwards: &Forwards) -> Result<bool, NativeError> {
        let comments = self.nft(plan).list_own_comments()?;
        let mut there: Vec<_> = comments
            .iter()
            .filter(|(table, _)| *table == forwards.table)
            .map(|(_, comment)| comment)
            .collect();
        let mut wanted: Vec<_> = forwards.ports.iter().map(|forward| &forward.comment).collect();
        // Each is there for packets from outside and for the host's own.
        for list in [&mut there, &mut wanted] {
            list.sort();
            list.dedup();
        }
        Ok(there == wanted)
    }
}

/// Allows packets of the loopback link on the bridge only if needed. The rules that protect the loopback link must
/// exist.
pub(super) fn let_loopback_pass(forwards: &Forwards, upstream: &Upstream) -> Result<Changed, NativeError> {
    let (setting, value) = loopback_setting(forwards, upstream);
    Ok(sysctl::set(&setting, value)?.is_some().into())
}

pub(super) fn lets_loopback_pass(forwards: &Forwards, upstream: &Upstream) -> bool {
    let (setting, value) = loopback_setting(forwards, upstream);
    sysctl::get(&setting).is_ok_and(|found| found == value)
}

/// Whether packets of the loopback link take the bridge.
fn loopback_setting(forwards: &Forwards, upstream: &Upstream) -> (String, &'static str) {
    let is_needed = forwards.need_route_localnet() || matches!(upstream, Upstream::Loopback(_));
    (format!("net/ipv4/conf/{}/route_localnet", forwards.bridge), if is_needed { "1" } else { "0" })
}

fn forward(node: &NetworkNode, port: HostPort) -> Forward {
    Forward {
        address: port.address,
        port: port.host,
        protocol: port.protocol.to_string(),
        to: SocketAddrV4::new(node.address, port.node),
        comment: format!("{port}{TO}{}{FOR}{}", node.address, node.name),
    }
}

/// The port that a rule of some cluster is for, and the node's name, by the table and the comment of the rule.
pub(super) fn forwarded(table: &str, comment: &str) -> Option<(HostPort, String)> {
    Names::is_ports_table(table).then_some(())?;
    let (port, rest) = comment.split_once(TO)?;
    let (_, node) = rest.split_once(FOR)?;
    Some((port.parse().ok()?, node.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake;

    const SPEC: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane, ports: ['8080:30080', '0.0.0.0:53:30053/udp']}
- {name: off, role: worker, ports: ['9090:30090'], state: stopped}
";

    #[test]
    fn the_comment_of_a_rule_tells_what_it_is_for() {
        let cluster = fake::cluster_of(SPEC, "10.213.0.0/24");
        let network = BridgeNetwork::new(std::path::Path::new("/nowhere"));
        let forwards = network.forwards(&NetworkPlan::of(&cluster));
        let told: Vec<_> = forwards
            .ports
            .iter()
            .filter_map(|forward| forwarded(&forwards.table, &forward.comment))
            .map(|(port, node)| format!("{port} {node}"))
            .collect();
        assert_eq!(told, ["8080:30080 demo", "0.0.0.0:53:30053/udp demo"], "a node that is off has none");
        assert_eq!(forwarded("flotilla-12345678", &forwards.ports[0].comment), None);
        assert_eq!(forwarded(&forwards.table, "something else"), None);
    }

    #[test]
    fn the_longest_comment_is_one_that_nft_takes() {
        let mut plan = NetworkPlan::of(&fake::cluster_of(SPEC, "10.213.0.0/24"));
        let node = &mut plan.nodes[0];
        node.name = "n".repeat(63).parse().unwrap();
        node.address = [255, 255, 255, 255].into();
        let port = "255.255.255.255:65535:65535/udp".parse().unwrap();
        assert!(forward(node, port).comment.len() < 128);
    }
}
