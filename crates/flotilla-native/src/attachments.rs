//! Checks the host directories and ports that nodes use.

use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use flotilla_core::{Finding, MachineSpec, NetworkPlan, Refusal};
use flotilla_linux::host::CommandError;
use flotilla_linux::mount;
use flotilla_linux::nft::NftError;
use flotilla_linux::sandbox::Bind;
use flotilla_spec::error::Requirement;
use flotilla_spec::{ClusterName, HostMount, HostPort, NodeName, Protocol};

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
    /// The directories that machines want and the host does not have, or that are flotilla's own.
    pub(super) fn check_mounts(&self, wanted: &[MachineSpec]) -> Result<Vec<Refusal>, NativeError> {
        let mut refused = Vec::new();
        for spec in wanted {
            let has = self.mount_points(spec)?;
            let new_mounts = spec.mounts.iter().filter(|mount| !has.contains(&mount.target));
            refused.extend(new_mounts.filter_map(|mount| {
                let error =
                    bind(&spec.id.node, mount).err().or_else(|| own(&self.home, &spec.id.node, mount))?;
                Some(refusal(&spec.id.node, "mounts", mount.to_string(), error.finding()))
            }));
        }
        Ok(refused)
    }

    /// The ports of the host that nodes want and others have.
    pub(super) fn check_ports(&self, plan: &NetworkPlan) -> Result<Vec<Refusal>, NativeError> {
        let wants_ports = plan.to_run().any(|node| !node.ports.is_empty());
        let forwarded = if wants_ports { self.forwarded(&plan.cluster)? } else { Forwarded::default() };
        let mut refused = Vec::new();
        for node in plan.to_run() {
            let new_ports = node.ports.iter().filter(|port| !forwarded.own.contains(port));
            refused.extend(new_ports.filter_map(|port| {
                let finding = forwarded.against(&node.name, port)?;
                Some(refusal(&node.name, "ports", port.to_string(), finding))
            }));
        }
        Ok(refused)
    }

    /// The mount points that a running machine already has.
    fn mount_points(&self, spec: &MachineSpec) -> Result<Vec<PathBuf>, NativeError> {
        let init = if spec.mounts.is_empty() { None } else { self.init(&spec.id.cluster, &spec.id.node)? };
        // A node that has just stopped has none.
        Ok(init.and_then(|init| mount::mount_points_of(&init).ok()).unwrap_or_default())
    }

    fn forwarded(&self, cluster: &ClusterName) -> Result<Forwarded, NativeError> {
        let comments = match self.any_nft(cluster).list_own_comments() {
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

fn refusal(node: &NodeName, key: &'static str, item: String, finding: Finding) -> Refusal {
    Refusal { requirement: Requirement { node: Some(node.clone()), key, item: Some(item) }, finding }
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

/// The mounts of the machine. An error if a host directory does not exist.
pub(super) fn mounts(spec: &MachineSpec) -> Result<Vec<Bind>, NativeError> {
    let mut mounts: Vec<_> = spec.mounts.iter().collect();
    // A mount inside another one comes after it.
    mounts.sort_by_key(|mount| &mount.target);
    mounts.into_iter().map(|mount| bind(&spec.id.node, mount)).collect()
}

fn bind(node: &NodeName, mount: &HostMount) -> Result<Bind, NativeError> {
    let HostMount { source, target, read_only } = mount.clone();
    match std::fs::metadata(&source) {
        Ok(_) => Ok(Bind { source, target, read_only }),
        Err(error) => Err(NativeError::MountSource { node: node.clone(), path: source, source: error }),
    }
}

/// Why a directory that exists must not be mounted: `delete` removes all that is in the state directory, and nothing of the
/// user's may be there.
fn own(home: &Path, node: &NodeName, mount: &HostMount) -> Option<NativeError> {
    let (real_home, source) = (home.canonicalize().ok()?, mount.source.canonicalize().ok()?);
    let (path, home) = (mount.source.clone(), home.to_owned());
    source.starts_with(real_home).then(|| NativeError::OwnDirectory { node: node.clone(), path, home })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_core::Severity;
    use flotilla_linux::poll;
    use flotilla_testkit::fake;
    use std::time::Duration;

    fn machine(mounts: &[&str]) -> MachineSpec {
        let cluster = fake::cluster("10.213.0.0/24");
        let mounts = mounts.iter().map(|mount| mount.parse().unwrap()).collect();
        MachineSpec { mounts, ..MachineSpec::of(&cluster, &cluster.primary().unwrap()) }
    }

    fn node() -> NodeName {
        "demo".parse().unwrap()
    }

    fn port(text: &str) -> HostPort {
        text.parse().unwrap()
    }

    #[test]
    fn a_folder_inside_another_is_mounted_after_it() {
        let binds = mounts(&machine(&["/usr:/data/inner:ro", "/usr:/data"])).unwrap();
        let targets: Vec<_> =
            binds.iter().map(|bind| (bind.target.to_str().unwrap(), bind.read_only)).collect();
        assert_eq!(targets, [("/data", false), ("/data/inner", true)]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_with_its_node() {
        let finding = mounts(&machine(&["/no/such/folder:/data"])).unwrap_err().finding();
        assert_eq!(
            finding.text,
            "cannot mount /no/such/folder into node demo: No such file or directory (os error 2)"
        );
        assert_eq!((finding.code, finding.exit_status), ("HOST_NO_MOUNT", 35));
    }

    #[test]
    fn what_is_in_the_state_directory_is_not_mounted_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join("clusters/demo/mine")).unwrap();
        std::os::unix::fs::symlink(home.join("clusters"), dir.path().join("link")).unwrap();
        let refused = |source: &str| {
            let mount = format!("{}:/data", dir.path().join(source).display());
            own(&home, &node(), &mount.parse().unwrap()).map(NativeError::finding)
        };
        for source in ["home", "home/clusters/demo/mine", "link/demo/mine"] {
            let finding = refused(source).unwrap();
            assert_eq!((finding.code, finding.exit_status), ("HOST_NO_MOUNT", 35), "{source}");
            assert!(finding.text.contains("it is in flotilla's own directory"), "{}", finding.text);
        }
        // People mount their home directories.
        assert_eq!(refused(""), None);
        assert_eq!(own(&dir.path().join("none"), &node(), &"/usr:/data".parse().unwrap()).map(drop), None);
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
