//! Checks the host directories and ports that nodes use.

use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::path::PathBuf;

use flotilla_core::{Cluster, Node};
use flotilla_core::{Finding, Refusal};
use flotilla_linux::host::CommandError;
use flotilla_linux::mount;
use flotilla_linux::nft::NftError;
use flotilla_linux::sandbox::Bind;
use flotilla_spec::error::Requirement;
use flotilla_spec::{HostMount, HostPort, NodeName, Protocol, WantedPower};

use super::error::NativeError;
use super::examine::Check;
use super::{Native, ports};

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

impl Native {
    /// The directories that nodes want and the host does not have.
    pub(super) fn check_mounts(
        &self,
        cluster: &Cluster,
        nodes: &[NodeName],
    ) -> Result<Vec<Refusal>, NativeError> {
        let mut refused = Vec::new();
        for node in nodes.iter().filter_map(|name| cluster.node(name)) {
            let has = self.mount_points(cluster, &node)?;
            let new_mounts = node.spec.mounts.iter().filter(|mount| !has.contains(&mount.target));
            refused.extend(new_mounts.filter_map(|mount| {
                let finding = bind(&node, mount).err()?.finding();
                Some(refusal(&node, "mounts", mount.to_string(), finding))
            }));
        }
        Ok(refused)
    }

    /// The ports of the host that nodes want and others have.
    pub(super) fn check_ports(&self, cluster: &Cluster) -> Result<Vec<Refusal>, NativeError> {
        let nodes: Vec<_> = cluster.nodes().filter(|node| node.spec.power == WantedPower::Running).collect();
        let wants_ports = nodes.iter().any(|node| !node.spec.ports.is_empty());
        let forwarded = if wants_ports { self.forwarded(cluster)? } else { Forwarded::default() };
        let mut refused = Vec::new();
        for node in &nodes {
            let new_ports = node.spec.ports.iter().filter(|port| !forwarded.own.contains(port));
            refused.extend(new_ports.filter_map(|port| {
                let finding = forwarded.against(node, port)?;
                Some(refusal(node, "ports", port.to_string(), finding))
            }));
        }
        Ok(refused)
    }

    /// The mount points that a running node already has.
    fn mount_points(&self, cluster: &Cluster, node: &Node) -> Result<Vec<PathBuf>, NativeError> {
        let init =
            if node.spec.mounts.is_empty() { None } else { self.init(cluster.name(), &node.spec.name)? };
        // A node that has just stopped has none.
        Ok(init.and_then(|init| mount::mount_points_of(&init).ok()).unwrap_or_default())
    }

    fn forwarded(&self, cluster: &Cluster) -> Result<Forwarded, NativeError> {
        let comments = match self.any_nft(cluster.name()).list_own_comments() {
            // Without an nft there are no rules of ours.
            Err(NftError::List { source: CommandError::NotFound { .. }, .. }) => Vec::new(),
            comments => comments?,
        };
        let own_table = self.names(cluster.name()).ports_table();
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

fn refusal(node: &Node, key: &'static str, item: String, finding: Finding) -> Refusal {
    Refusal {
        requirement: Requirement { node: Some(node.spec.name.clone()), key, item: Some(item) },
        finding,
    }
}

impl Forwarded {
    /// Why a node cannot publish a port; none if it can.
    fn against(&self, node: &Node, port: &HostPort) -> Option<Finding> {
        let name = &node.spec.name;
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

/// The mounts of the machine. An error if a host directory does not exist.
pub(super) fn mounts(node: &Node) -> Result<Vec<Bind>, NativeError> {
    let mut mounts: Vec<_> = node.spec.mounts.iter().collect();
    // A mount inside another one comes after it.
    mounts.sort_by_key(|mount| &mount.target);
    mounts.into_iter().map(|mount| bind(node, mount)).collect()
}

fn bind(node: &Node, mount: &HostMount) -> Result<Bind, NativeError> {
    let HostMount { source, target, read_only } = mount.clone();
    match std::fs::metadata(&source) {
        Ok(_) => Ok(Bind { source, target, read_only }),
        Err(error) => {
            Err(NativeError::MountSource { node: node.spec.name.clone(), path: source, source: error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_core::Severity;
    use flotilla_testkit::fake;

    fn node(mounts: &[&str]) -> Node {
        let mut node = fake::cluster("10.213.0.0/24").primary().unwrap();
        node.spec.mounts = mounts.iter().map(|mount| mount.parse().unwrap()).collect();
        node
    }

    fn port(text: &str) -> HostPort {
        text.parse().unwrap()
    }

    #[test]
    fn a_folder_inside_another_is_mounted_after_it() {
        let binds = mounts(&node(&["/usr:/data/inner:ro", "/usr:/data"])).unwrap();
        let targets: Vec<_> =
            binds.iter().map(|bind| (bind.target.to_str().unwrap(), bind.read_only)).collect();
        assert_eq!(targets, [("/data", false), ("/data/inner", true)]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_with_its_node() {
        let finding = mounts(&node(&["/no/such/folder:/data"])).unwrap_err().finding();
        assert_eq!(
            finding.text,
            "cannot mount /no/such/folder into node demo: No such file or directory (os error 2)"
        );
        assert_eq!((finding.code, finding.exit_status), ("HOST_NO_MOUNT", 35));
    }

    #[test]
    fn a_port_is_refused_while_somebody_listens_on_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let (node, forwarded) = (node(&[]), Forwarded::default());
        for text in [format!("{number}:80"), format!("0.0.0.0:{number}:80")] {
            let finding = forwarded.against(&node, &port(&text)).unwrap();
            assert_eq!((finding.code, finding.severity), ("IF_PORT_IN_USE", Severity::Fatal));
        }
        assert_eq!(forwarded.against(&node, &port(&format!("127.0.0.2:{number}:80"))), None);
        drop(listener);
        assert_eq!(forwarded.against(&node, &port(&format!("{number}:80"))), None);
    }

    #[test]
    fn a_port_that_leads_to_another_cluster_is_refused() {
        let forwarded =
            Forwarded { own: Vec::new(), others: vec![(port("0.0.0.0:8080:80"), "other-m02".to_owned())] };
        let finding = forwarded.against(&node(&[]), &port("8080:30080")).unwrap();
        assert_eq!(
            finding.text,
            "cannot publish port 8080/tcp of 127.0.0.1 for node demo: node other-m02 of another cluster publishes it"
        );
    }

    #[test]
    fn an_address_that_the_host_has_not_is_told() {
        let finding = Forwarded::default().against(&node(&[]), &port("192.0.2.77:0080:80")).unwrap();
        assert_eq!(finding.code, "IF_NO_ADDRESS");
    }
}
