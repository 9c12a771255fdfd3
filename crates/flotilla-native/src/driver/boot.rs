//! Turning machines on and off.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::{
    BundleLayout, Changed, IdRange, Machine, MachineId, MachineIsolation, MachineSpec, Port,
};
use flotilla_linux::cgroup::{Group, Limits};
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::machine::{self, Capacity, Spec};
use flotilla_linux::net::Net;
use flotilla_linux::process::{self, Process};
use flotilla_linux::sandbox::Bind;
use flotilla_linux::sealed;
use flotilla_linux::user::Ids;
use flotilla_node::stage::{Boot, STAGE_INIT};
use flotilla_node_api::{INIT, NodeConfig};
use flotilla_spec::quantity::HostSize;
use flotilla_spec::{ClusterName, NodeName, paths_of_node};
use rustix::process::Signal;

use super::disk::Disk;
use super::machine::NativeMachine;
use super::{NativeDriver, layout, limits, mounts, store};
use crate::error::{At, NativeError};

/// Time limit for PID 1 to stop its services; its own limit is shorter.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// Time limit for a killed machine to end.
const KILL_PATIENCE: Duration = Duration::from_secs(15);
/// The other names of our own binary in a node.
const PROGRAMS: [&str; 2] = ["/usr/local/bin/systemctl", "/usr/local/bin/sudo"];

impl NativeDriver {
    /// Creates the machine if it does not exist, and boots it with `config` if it is off.
    pub(super) fn boot_machine(
        &self,
        spec: &MachineSpec,
        port: &Port,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, NativeError> {
        let MachineId { cluster, node } = &spec.id;
        let init = match self.init(cluster, node)? {
            Some(init) => init,
            None => self.boot(spec, &self.group(cluster, node)?, port, config)?,
        };
        Ok(Arc::new(NativeMachine::on(self, cluster, node, init)?))
    }

    /// Thaws a machine that is on, and connects it if it is not.
    pub(super) fn plug_machine(&self, id: &MachineId, port: &Port) -> Result<Arc<dyn Machine>, NativeError> {
        let MachineId { cluster, node } = id;
        let init = self.init(cluster, node)?.ok_or_else(|| NativeError::Off { node: node.clone() })?;
        // It may be frozen. Paused containers stay paused.
        self.group(cluster, node)?.thaw_itself()?;
        plug(node, port, &init)?;
        Ok(Arc::new(NativeMachine::on(self, cluster, node, init)?))
    }

    pub(super) fn group(&self, cluster: &ClusterName, node: &NodeName) -> Result<Group, NativeError> {
        Ok(Group::new(&layout()?, &self.names(cluster).node_group(node))?)
    }

    fn boot(
        &self,
        spec: &MachineSpec,
        group: &Group,
        port: &Port,
        config: &NodeConfig,
    ) -> Result<Process, NativeError> {
        let MachineId { cluster, node: name } = &spec.id;
        // Removes what a killed machine left: dying processes, and old control groups that slow the kubelet down.
        // Done first: no other process may use its disk.
        self.end(cluster, name)?;
        let disk = Disk::of(&self.nodes_folder(cluster), name);
        let mounts = mounts::of(spec)?;
        let digest = self.digest(spec);
        let bundle = self.finished_bundle(&digest)?;
        // All nodes have the cluster's version of our own programs, whatever their kubelet.
        if !disk.exists()? {
            self.finished_bundle(&spec.image_store)?;
        }
        disk.ensure(&digest, &spec.image_store, &self.bundle(&spec.image_store))?;
        let shared = disk.image_store()?.map(|store| store::shared(&self.finished_bundle(&store)?, &store));
        let shared = shared.transpose()?;
        let uuid = disk.uuid()?;

        let ids = ids(spec)?;
        limits::raise(ids.is_some())?;
        group.create_for_machine()?;
        let host = process::host_size();
        let host = HostSize { cpus: host.cpus, memory: host.memory };
        let (cpus, memory) = (spec.cpus.count_on(&host), spec.memory.bytes_on(&host));
        group.limit(Limits { cpus, memory, processes: Some(limits::processes()) })?;
        let allowed = group.processors();

        let boot = Boot {
            machine: Spec {
                hostname: config.hostname.clone(),
                root: bundle.rootfs(),
                folder: disk.folder.clone(),
                var: disk.var(),
                binds: binds(&bundle)?,
                mounts,
                own: paths_of_node().map(PathBuf::from).collect(),
                shared,
                links: PROGRAMS.map(|name| (name.into(), INIT.into())).into(),
                capacity: Capacity { cpus: cpus.map(|count| share(&allowed, count, spec.number)), memory },
                uuid,
                ids,
            },
            config: flotilla_node::Config::default(),
            node: config.clone(),
        };
        let failed = |source| NativeError::Boot { node: name.clone(), source };
        let names = self.names(cluster);
        // A machine in a user namespace has no rights to the file behind a process of the host.
        let program = if ids.is_some() { "/proc/self/exe".into() } else { sealed::own_program() };
        let launched = machine::launch(
            &program,
            STAGE_INIT,
            &names.node_group(name),
            name.as_ref(),
            &boot,
            Some(&boot.machine),
            &disk.folder.join("console"),
        )
        .map_err(failed)?;
        plug(name, port, &launched.init)?;
        launched.go().map_err(failed)
    }

    /// The digest of the bundle that a machine's root is, or will be, made from.
    fn digest(&self, spec: &MachineSpec) -> String {
        let made_from = Disk::of(&self.nodes_folder(&spec.id.cluster), &spec.id.node).bundle();
        made_from.unwrap_or_else(|| spec.bundle.clone())
    }

    fn finished_bundle(&self, digest: &str) -> Result<BundleLayout, NativeError> {
        let bundle = self.bundle(digest);
        if bundle.rootfs().is_dir() {
            Ok(bundle)
        } else {
            Err(NativeError::NoBundle { digest: digest.to_owned() })
        }
    }

    /// Lets PID 1 stop everything in order, then kills the rest.
    pub(super) fn stop_machine(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, NativeError> {
        let group = self.group(cluster, node)?;
        let init = self.init(cluster, node)?;
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

/// Moves the loose end of the machine's port into it, if it is not there yet. The node configures it.
fn plug(node: &NodeName, port: &Port, init: &Process) -> Result<(), NativeError> {
    let failed = |source| NativeError::Connect { node: node.clone(), source };
    Net::here().and_then(|host| host.move_link(&port.device, init, &port.name_inside)).map_err(failed)?;
    Ok(())
}

/// Our own binary, and the bundle's kubectl for users in the node.
fn binds(bundle: &BundleLayout) -> Result<Vec<Bind>, NativeError> {
    // By its real path: the link in /proc points to a mount of another namespace, which cannot be bound.
    let program = std::env::current_exe().at("find", "/proc/self/exe")?;
    let bind = |source: PathBuf, target: &str| Bind { source, target: target.into(), read_only: true };
    Ok(vec![bind(program, INIT), bind(bundle.kubectl(), "/usr/local/bin/kubectl")])
}

/// The ids of its user namespace; none if it has none. Never the host's instead.
fn ids(spec: &MachineSpec) -> Result<Option<Ids>, NativeError> {
    match spec.isolation {
        MachineIsolation::None => Ok(None),
        MachineIsolation::User { ids: Some(IdRange { first_id, count }) } => {
            Ok(Some(Ids { first: first_id, count }))
        }
        MachineIsolation::User { ids: None } => Err(NativeError::NoIds { node: spec.id.node.clone() }),
    }
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
