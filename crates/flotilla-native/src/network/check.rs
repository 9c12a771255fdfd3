//! Whether nodes can have the ports of the host that they publish.

use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};

use flotilla_core::{Finding, NetworkPlan, Refusal};
use flotilla_linux::host::CommandError;
use flotilla_linux::nft::NftError;
use flotilla_spec::{ClusterName, HostPort, NodeName, Protocol};

use super::{BridgeNetwork, nft, ports};
use crate::error::NativeError;
use crate::examine::Check;
use crate::refusal;

const IN_USE: Check = Check::new("IF_PORT_IN_USE", 71);
const NO_ADDRESS: Check = Check::new("IF_NO_ADDRESS", 75);
const NETWORK: Check = Check::new("IF_NETWORK", 70);
const OTHER_PORT: &str = "choose another port";

/// The ports that are published on the host.
#[derive(Debug, Default)]
struct Forwarded {
    /// By this cluster.
    own: Vec<HostPort>,
    /// By others, with their nodes' names.
    others: Vec<(HostPort, String)>,
}

impl BridgeNetwork {
    /// The ports of the host that nodes want and others have.
    pub(super) fn check_ports(&self, plan: &NetworkPlan) -> Result<Vec<Refusal>, NativeError> {
        let wants_ports = plan.to_run().any(|node| !node.ports.is_empty());
        let forwarded = if wants_ports { self.forwarded(&plan.cluster)? } else { Forwarded::default() };
        let mut refused = Vec::new();
        for node in plan.to_run() {
            let new_ports = node.ports.iter().filter(|port| !forwarded.own.contains(port));
            refused.extend(new_ports.filter_map(|port| {
                let finding = forwarded.against(&node.name, port)?;
                Some(refusal(&node.name, "ports", Some(port.to_string()), finding))
            }));
        }
        Ok(refused)
    }

    fn forwarded(&self, cluster: &ClusterName) -> Result<Forwarded, NativeError> {
        let comments = match nft::any(&self.home).list_own_comments() {
            // Without an nft there are no rules of ours.
            Err(NftError::List { source: CommandError::NotFound { .. }, .. }) => Vec::new(),
            comments => comments?,
        };
        let own_table = self.names(cluster).ports_table();
        let mut forwarded = Forwarded::default();
        for (table, comment) in comments {
            let Some((port, node)) = ports::forwarded(&table, &comment) else { continue };
            if table == own_table {
                forwarded.own.push(port);
            } else {
                forwarded.others.push((port, node));
            }
        }
        Ok(forwarded)
    }
}

impl Forwarded {
    /// Why a node cannot publish a port; none if it can.
    fn against(&self, name: &NodeName, port: &HostPort) -> Option<Finding> {
        let HostPort { address, host, protocol, .. } = port;
        let refused = |check: Check, why: &str, cure: &str| {
            Some(check.fatal(
                format!("cannot publish port {host}/{protocol} of {address} for node {name}: {why}"),
                cure,
            ))
        };
        if let Some((_, other)) = self.others.iter().find(|(taken, _)| taken.collides(port)) {
            return refused(IN_USE, &format!("node {other} of another cluster publishes it"), OTHER_PORT);
        }
        let error = listen(port).err()?;
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                let cure =
                    format!("{OTHER_PORT}, or see which program it is with `ss -lnp 'sport = :{host}'`");
                refused(IN_USE, "another program listens on it", &cure)
            }
            io::ErrorKind::AddrNotAvailable => {
                let cure = "use an address of the host, or 0.0.0.0 for all";
                refused(NO_ADDRESS, "the host has no such address", cure)
            }
            _ => refused(NETWORK, &error.to_string(), OTHER_PORT),
        }
    }
}

/// Binds the port for a moment, which fails if another program listens on it. Forwarding rules do not matter.
fn listen(port: &HostPort) -> io::Result<()> {
    let address = SocketAddrV4::new(port.address, port.host);
    match port.protocol {
        Protocol::Tcp => TcpListener::bind(address).map(drop),
        Protocol::Udp => UdpSocket::bind(address).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_core::Severity;
    use flotilla_linux::poll;
    use std::time::Duration;

    fn node() -> NodeName {
        "demo".parse().unwrap()
    }

    fn port(text: &str) -> HostPort {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_is_refused_while_somebody_listens_on_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let (node, forwarded) = (node(), Forwarded::default());
        for text in [format!("{number}:80"), format!("0.0.0.0:{number}:80")] {
            let finding = forwarded.against(&node, &port(&text)).unwrap();
            assert_eq!((finding.code, finding.severity), ("IF_PORT_IN_USE", Severity::Fatal));
        }
        assert_eq!(forwarded.against(&node, &port(&format!("127.0.0.2:{number}:80"))), None);
        drop(listener);
        // A child that another test starts just now has the listener, too, until it runs its program.
        let refused = || forwarded.against(&node, &port(&format!("{number}:80"))).map_or(Ok(()), Err);
        poll::until(Duration::from_mins(1), refused, |_| false).unwrap();
    }

    #[test]
    fn a_port_that_leads_to_another_cluster_is_refused() {
        let forwarded =
            Forwarded { own: Vec::new(), others: vec![(port("0.0.0.0:8080:80"), "other-m02".to_owned())] };
        let finding = forwarded.against(&node(), &port("8080:30080")).unwrap();
        assert_eq!(
            finding.text,
            "cannot publish port 8080/tcp of 127.0.0.1 for node demo: node other-m02 of another cluster publishes it"
        );
    }

    #[test]
    fn an_address_that_the_host_has_not_is_told() {
        let finding = Forwarded::default().against(&node(), &port("192.0.2.77:0080:80")).unwrap();
        assert_eq!(finding.code, "IF_NO_ADDRESS");
    }
}
