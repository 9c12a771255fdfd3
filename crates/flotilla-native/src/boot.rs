//! Turning machines on and off.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::{Changed, Machine};
use flotilla_core::{Cluster, Node};
use flotilla_linux::cgroup::{Group, Limits};
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::machine::{self, Capacity, Spec};
use flotilla_linux::net::{Net, NetError, Veth};
use flotilla_linux::process::{self, Process};
use flotilla_linux::sandbox::Bind;
use flotilla_node::stage::{Boot, STAGE_INIT};
use flotilla_node_api::{INIT, NodeConfig};
use flotilla_spec::quantity::HostSize;
use flotilla_spec::{ClusterName, NodeName};
use rustix::process::Signal;

use super::disk::Disk;
use super::error::{At, NativeError};
use super::machine::NativeMachine;
use super::{Native, attachments, layout, limits};

/// The node's link, as its programs see it.
pub(super) const LINK: &str = "eth0";
/// Time limit for PID 1 to stop its services; its own limit is shorter.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// Time limit for a killed machine to end.
const KILL_PATIENCE: Duration = Duration::from_secs(15);
/// The name of our own binary in a node.
const SYSTEMCTL: &str = "/usr/local/bin/systemctl";

impl Native {
    /// Creates the machine, boots it with `config`, or repairs its link, as needed.
    pub(super) fn ensure_machine(
        &self,
        cluster: &Cluster,
        name: &NodeName,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, NativeError> {
        let node = cluster.node(name).ok_or_else(|| NativeError::NoAddress { node: name.clone() })?;
        let group = self.group(cluster.name(), name)?;
        let init = match self.init(cluster.name(), name)? {
            Some(init) => {
                // It may be frozen. Paused containers stay paused.
                group.thaw_itself()?;
                let connected = self.cabling(cluster.name())?.reaches(name)?;
                self.connect(cluster, &node, &init, connected)?;
                init
            }
            None => self.boot(cluster, &node, &group, config)?,
        };
        if !node.spec.ports.is_empty() {
            self.ensure_ports(cluster)?;
        }
        Ok(Arc::new(NativeMachine::on(self, cluster.name(), name, init)?))
    }

    pub(super) fn group(&self, cluster: &ClusterName, node: &NodeName) -> Result<Group, NativeError> {
        Ok(Group::new(&layout()?, &self.names(cluster).node_group(node))?)
    }

    fn boot(
        &self,
        cluster: &Cluster,
        node: &Node,
        group: &Group,
        config: &NodeConfig,
    ) -> Result<Process, NativeError> {
        let name = &node.spec.name;
        // Removes what a killed machine left: dying processes, and old control groups that slow the kubelet down.
        // Done first: no other process may use its disk.
        self.end(cluster.name(), name)?;
        let disk = Disk::of(&self.nodes_folder(cluster.name()), name);
        let mounts = attachments::mounts(node)?;
        let digest = self.digest(cluster, name);
        let bundle = self.finished_bundle(&digest)?;
        // All nodes have the cluster's version of our own programs, whatever their kubelet.
        let store = self.finished_bundle(&cluster.allocations.bundle)?;
        disk.ensure(&digest, &store.join("store"))?;
        let uuid = disk.uuid()?;

        limits::raise()?;
        group.create()?;
        let host = process::host_size();
        let host = HostSize { cpus: host.cpus, memory: host.memory };
        let (cpus, memory) = (node.spec.cpus.count_on(&host), node.spec.memory.bytes_on(&host));
        group.limit(Limits { cpus, memory })?;
        let allowed = group.processors();

        let boot = Boot {
            machine: Spec {
                hostname: config.hostname.clone(),
                root: bundle.join("rootfs"),
                folder: disk.folder.clone(),
                var: disk.var(),
                binds: binds(&bundle)?,
                mounts,
                links: vec![(SYSTEMCTL.into(), INIT.into())],
                capacity: Capacity { cpus: cpus.map(|count| share(&allowed, count, node.number)), memory },
                uuid,
            },
            config: flotilla_node::Config::default(),
            node: config.clone(),
        };
        let failed = |source| NativeError::Boot { node: name.clone(), source };
        let names = self.names(cluster.name());
        let launched = machine::launch(
            Path::new("/proc/self/exe"),
            STAGE_INIT,
            &names.node_group(name),
            name.as_ref(),
            &boot,
            &disk.folder.join("console"),
        )
        .map_err(failed)?;
        // The link of a machine that just stopped may still exist, and the new one cannot use it.
        self.connect(cluster, node, &launched.init, false)?;
        launched.go().map_err(failed)
    }

    fn finished_bundle(&self, digest: &str) -> Result<PathBuf, NativeError> {
        let bundle = self.bundle_folder(digest);
        if bundle.join("rootfs").is_dir() {
            Ok(bundle)
        } else {
            Err(NativeError::NoBundle { digest: digest.to_owned() })
        }
    }

    /// Creates the node's link and the host's route to its pods, if missing. The node configures its end of the link.
    fn connect(
        &self,
        cluster: &Cluster,
        node: &Node,
        init: &Process,
        has_link: bool,
    ) -> Result<(), NativeError> {
        let failed = |source: NetError| NativeError::Connect { node: node.spec.name.clone(), source };
        let names = self.names(cluster.name());
        let host = Net::here().map_err(failed)?;
        if !has_link {
            let alias = format!("{}/{}", names.owner(), node.spec.name);
            let (host_name, bridge) = (names.port(&node.spec.name), names.bridge());
            let veth = Veth {
                host_name: &host_name,
                alias: &alias,
                bridge: &bridge,
                peer_name: LINK,
                process: init,
            };
            host.ensure_veth_into(&veth).map_err(failed)?;
        }
        host.ensure_route(node.pod_range, node.address, &names.bridge()).map_err(failed)?;
        Ok(())
    }

    /// Lets PID 1 stop everything in order, then kills the rest.
    pub(super) fn stop_machine(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, NativeError> {
        let group = self.group(cluster, node)?;
        let init = self.init(cluster, node)?;
        self.close_ports(cluster, node)?;
        if let Some(init) = &init {
            // In v1 a frozen process receives no signal, and PID 1 would wait for its containers forever.
            group.thaw()?;
            if init.signal(Signal::TERM).is_ok() {
                init.wait_for_end(STOP_PATIENCE);
            }
        }
        self.end(cluster, node)?;
        group.remove()?;
        Ok(if init.is_some() { Changed::Yes } else { Changed::No })
    }

    /// Kills all processes of a machine and waits until they are gone. Afterwards no process uses its disk.
    pub(super) fn end(&self, cluster: &ClusterName, node: &NodeName) -> Result<(), NativeError> {
        let failed = |source| NativeError::NotStopped { node: node.clone(), source };
        self.group(cluster, node)?.kill().map_err(|source| failed(Some(source)))?;
        let folder = Disk::of(&self.nodes_folder(cluster), node).folder;
        let ended = match life::of(&folder).at("read the lock in", &folder)? {
            Life::None => true,
            // Its control group may not be visible. All processes of its namespace die with PID 1.
            Life::Runs(init) => {
                // It may have ended by itself.
                let _ = init.signal(Signal::KILL);
                init.wait_for_end(KILL_PATIENCE)
            }
            Life::Unseen => return Err(NativeError::Unseen { node: node.clone() }),
        };
        if ended { Ok(()) } else { Err(failed(None)) }
    }
}

/// Our own binary, and the bundle's kubectl for users in the node.
fn binds(bundle: &Path) -> Result<Vec<Bind>, NativeError> {
    // By its real path: the link in /proc points to a mount of another namespace, which cannot be bound.
    let program = std::env::current_exe().at("find", "/proc/self/exe")?;
    let bind = |source: PathBuf, target: &str| Bind { source, target: target.into(), read_only: true };
    Ok(vec![bind(program, INIT), bind(bundle.join("bin/kubectl"), "/usr/local/bin/kubectl")])
}

/// Which of the CPUs that it may use a node sees: each node begins with another one, so that small nodes do not all
/// sit on the first.
fn share(allowed: &[u32], count: u32, number: u32) -> Vec<u32> {
    let first = number.saturating_sub(1) as usize;
    let turned = allowed.iter().cycle().skip(first % allowed.len().max(1));
    let mut cpus: Vec<u32> = turned.take(allowed.len().min(count as usize)).copied().collect();
    cpus.sort_unstable();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_nodes_are_spread_over_the_processors() {
        let four = [0, 1, 2, 3];
        assert_eq!(share(&four, 1, 1), [0]);
        assert_eq!(share(&four, 1, 2), [1]);
        assert_eq!(share(&four, 2, 4), [0, 3]);
        assert_eq!(share(&[0, 1], 2, 1), [0, 1]);
        assert_eq!(share(&[0, 1], 9, 1), [0, 1], "more than there are would make the kubelet crash");
        assert_eq!(share(&[2, 5, 7], 2, 3), [2, 7], "only those that are there");
        assert_eq!(share(&[], 2, 3), [0_u32; 0]);
    }
}
