//! The services of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flotilla_node_api::{Need, Reply, Request, ServiceSpec, Status, Unit, Verb};
use rustix::process::{Pid, WaitStatus};

use crate::config::Config;
use crate::error::NodeError;
use crate::journal::Journal;
use crate::launch::Launch;
use crate::output::Output;
use crate::root::Root;
use crate::service::Service;
use crate::status::{self, Birth};

/// How often to try the socket of a service until it answers.
const KNOCK: Duration = Duration::from_millis(5);

/// The services by their names.
#[derive(Debug)]
pub(crate) struct Services<'node> {
    config: &'node Config,
    root: Root,
    birth: Birth,
    by_name: BTreeMap<Unit, Service>,
    /// Whether the node goes down: nobody is started any more.
    closed: bool,
}

impl<'node> Services<'node> {
    pub(crate) fn new(config: &'node Config, root: Root) -> Result<Self, NodeError> {
        let service = |spec: ServiceSpec| {
            let path = root.log_of(&spec.name);
            let output = Output::open(&path, config.log_bytes);
            let output = output.map_err(|source| NodeError::Log { path, source })?;
            Ok((spec.name.clone(), Service::new(spec, output)))
        };
        let specs = config.services().into_iter().map(service);
        let by_name = specs.collect::<Result<_, NodeError>>()?;
        let mut services = Self { config, root, birth: Birth::now(), by_name, closed: false };
        services.look_for_files();
        Ok(services)
    }

    /// Sees which services have their files.
    pub(crate) fn look_for_files(&mut self) {
        for service in self.by_name.values_mut() {
            service.blocked = !has_its_files(&service.spec, &self.root);
        }
    }

    /// Starts services that are to run and have what they need, and kills those that are to end and do not.
    pub(crate) fn tick(&mut self, now: Instant, journal: &mut Journal) {
        for service in self.by_name.values_mut() {
            service.knock(&self.root, journal);
        }
        // Each start may be what another service has waited for.
        while self.start_due(now, journal) {}
        for service in self.by_name.values_mut() {
            service.kill_if_overdue(now, journal);
        }
    }

    /// Starts the services that have what they need, and says whether there were any.
    fn start_due(&mut self, now: Instant, journal: &mut Journal) -> bool {
        let due = self.by_name.values().filter(|service| service.is_due(now) && self.has_services(service));
        let due: BTreeSet<_> = due.map(|service| service.spec.name.clone()).collect();
        for service in self.by_name.values_mut().filter(|service| due.contains(&service.spec.name)) {
            service.start(Launch::of(&service.spec, &self.root), &self.config.env, now, journal);
        }
        !due.is_empty()
    }

    /// Whether all services that this one needs have been ready.
    fn has_services(&self, service: &Service) -> bool {
        service.spec.needs.iter().all(|need| match need {
            Need::File(_) => true,
            Need::Service(unit) => self.by_name.get(unit).is_some_and(|needed| needed.was_ready),
        })
    }

    /// Takes note of a process's end; most are orphans that concern nobody.
    pub(crate) fn ended(&mut self, pid: Pid, status: WaitStatus, now: Instant, journal: &mut Journal) {
        let ended = self.by_name.values_mut().find(|service| service.pid() == Some(pid));
        let Some(service) = ended else { return };
        service.ended(status, now, journal);
        // Somebody may have taken its files away while it ran.
        self.look_for_files();
    }

    /// Does what was asked for, as far as it can be done at once. No reply means: when the service is settled.
    pub(crate) fn act(&mut self, request: Request, now: Instant, journal: &mut Journal) -> Option<Reply> {
        let Request::Unit { verb, unit } = request else {
            let units = self.by_name.values().map(|service| service.unit_status(now)).collect();
            return Some(Reply::Node(status::of_node(self.birth, &self.root, self.config.virtual_ip, units)));
        };
        self.look_for_files();
        let Some(service) = self.by_name.get_mut(&unit) else { return Some(Reply::NoSuchUnit(unit)) };
        if verb == Verb::Status {
            return Some(Reply::Status(service.status(now)));
        }
        if self.closed {
            return Some(Reply::Refused("the node is going down".to_owned()));
        }
        let grace = self.config.graces.stop;
        match verb {
            Verb::Start => service.want(),
            Verb::Stop => {
                service.unwant();
                service.end(grace, now, journal);
            }
            Verb::Restart => {
                service.want();
                service.end(grace, now, journal);
            }
            Verb::Status => {}
        }
        None
    }

    /// The status of a service, once it is settled.
    pub(crate) fn settled(&self, unit: &Unit, now: Instant) -> Option<Status> {
        let service = self.by_name.get(unit)?;
        service.is_settled().then(|| service.status(now))
    }

    /// From here on nobody is started.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for service in self.by_name.values_mut() {
            service.unwant();
        }
    }

    /// Tells the services that are `meant` to end, each within its own grace or within so many milliseconds. Gives the longest
    /// grace of those that run.
    pub(crate) fn end(
        &mut self,
        meant: impl Fn(&Unit) -> bool,
        grace: u64,
        now: Instant,
        journal: &mut Journal,
    ) -> u64 {
        let meant = self.by_name.iter_mut().filter(|(unit, service)| meant(unit) && service.pid().is_some());
        meant.map(|(_, service)| service.end(grace, now, journal)).max().unwrap_or_default()
    }

    /// Whether any of the services that are `meant` runs.
    pub(crate) fn any_runs(&self, meant: impl Fn(&Unit) -> bool) -> bool {
        self.by_name.iter().any(|(unit, service)| meant(unit) && service.pid().is_some())
    }

    pub(crate) fn pid(&self, unit: &Unit) -> Option<Pid> {
        self.by_name.get(unit)?.pid()
    }

    pub(crate) fn drain(&mut self) {
        for service in self.by_name.values_mut() {
            service.drain();
        }
    }

    /// The next timeout.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        let knock = self.by_name.values().any(Service::is_knocked).then(|| now + KNOCK);
        self.by_name.values().filter_map(Service::next_look).chain(knock).min()
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.by_name.values().map(AsFd::as_fd)
    }

    /// One line on how they stand.
    pub(crate) fn describe(&self, now: Instant) -> String {
        let all = self.by_name.values().map(|service| service.status(now).to_string());
        all.collect::<Vec<_>>().join("; ")
    }
}

/// The directories that the files of services come into.
pub(crate) fn folders(specs: &[ServiceSpec], root: &Root) -> Vec<PathBuf> {
    let files = specs.iter().flat_map(|spec| &spec.needs).flat_map(|need| match need {
        Need::File(any_of) => any_of.as_slice(),
        Need::Service(_) => &[],
    });
    let folders: BTreeSet<_> = files.filter_map(|file| Path::new(file).parent()).collect();
    folders.into_iter().map(|folder| root.at(folder)).collect()
}

fn has_its_files(spec: &ServiceSpec, root: &Root) -> bool {
    spec.needs.iter().all(|need| match need {
        Need::File(any_of) => any_of.iter().any(|file| root.at(file.as_ref()).exists()),
        Need::Service(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn standard(unit: &Unit) -> ServiceSpec {
        ServiceSpec::of_every_node().into_iter().find(|spec| spec.name == *unit).unwrap()
    }

    #[test]
    fn the_kubelet_needs_its_configuration_and_either_credential() {
        let dir = tempfile::tempdir().unwrap();
        let (root, kubelet) = (Root::new(dir.path()), standard(&Unit::KUBELET));
        for folder in folders(std::slice::from_ref(&kubelet), &root) {
            fs::create_dir_all(folder).unwrap();
        }
        let [config, kubeconfig, bootstrap] = [
            "/var/lib/kubelet/config.yaml",
            "/etc/kubernetes/kubelet.conf",
            "/etc/kubernetes/bootstrap-kubelet.conf",
        ]
        .map(|path| root.at(path.as_ref()));
        assert!(!has_its_files(&kubelet, &root));
        fs::write(config, "").unwrap();
        assert!(!has_its_files(&kubelet, &root));
        fs::write(&bootstrap, "").unwrap();
        assert!(has_its_files(&kubelet, &root));
        fs::rename(bootstrap, kubeconfig).unwrap();
        assert!(has_its_files(&kubelet, &root));
    }

    #[test]
    fn the_folders_of_all_services_are_watched_once() {
        let folders = folders(&ServiceSpec::of_every_node(), &Root::new("/"));
        assert_eq!(folders, ["/etc/flotilla", "/etc/kubernetes", "/var/lib/kubelet"].map(PathBuf::from));
    }
}
