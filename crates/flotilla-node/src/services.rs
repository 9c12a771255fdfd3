//! The services of a node.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use flotilla_node_api::{Reply, Request, Status, Unit, Verb};
use rustix::process::{Pid, WaitStatus};

use crate::config::Config;
use crate::error::NodeError;
use crate::journal::Journal;
use crate::keepalived;
use crate::kubelet;
use crate::output::Output;
use crate::root::Root;
use crate::service::{Launch, Service};
use crate::status::{self, Birth};

/// Containerd, the kubelet and keepalived.
#[derive(Debug)]
pub(crate) struct Services<'node> {
    config: &'node Config,
    root: Root,
    birth: Birth,
    pub(crate) containerd: Service,
    pub(crate) kubelet: Service,
    pub(crate) keepalived: Service,
    /// Whether the node goes down: nobody is started any more.
    closed: bool,
}

impl<'node> Services<'node> {
    pub(crate) fn new(config: &'node Config, root: Root) -> Result<Self, NodeError> {
        let service = |unit: Unit| {
            let path = root.logs().join(format!("{unit}.log"));
            let output = Output::open(&path, config.log_bytes);
            Ok(Service::new(unit, output.map_err(|source| NodeError::Log { path, source })?))
        };
        let (containerd, kubelet) = (service(Unit::Containerd)?, service(Unit::Kubelet)?);
        let keepalived = service(Unit::Keepalived)?;
        let birth = Birth::now();
        let mut services = Self { config, root, birth, containerd, kubelet, keepalived, closed: false };
        services.look_for_files();
        Ok(services)
    }

    /// Sees who has what it needs.
    pub(crate) fn look_for_files(&mut self) {
        self.kubelet.blocked = !kubelet::has_its_files(&self.root);
        self.keepalived.blocked = !keepalived::has_its_file(&self.root);
    }

    /// Starts who is to run and does not, and kills who is to end and does not. A kubelet that finds no containerd ends,
    /// so it is not started before that answers.
    pub(crate) fn tick(&mut self, now: Instant, containerd_answers: bool, journal: &mut Journal) {
        let env = &self.config.env;
        if self.containerd.is_due(now) {
            self.containerd.start(Ok(plain(&self.config.containerd)), env, now, journal);
        }
        if containerd_answers && self.kubelet.is_due(now) {
            let launch = kubelet::launch(&self.root, &self.config.kubelet);
            self.kubelet.start(launch, env, now, journal);
        }
        if self.keepalived.is_due(now) {
            let launch = keepalived::launch(&self.root, &self.config.keepalived);
            self.keepalived.start(launch, env, now, journal);
        }
        for service in self.all() {
            service.kill_if_overdue(now, journal);
        }
    }

    /// Takes note of a process's end; most are orphans that concern nobody.
    pub(crate) fn ended(&mut self, pid: Pid, status: WaitStatus, now: Instant, journal: &mut Journal) {
        let ended = self.all().into_iter().find(|service| service.pid() == Some(pid));
        let Some(service) = ended else { return };
        service.ended(status, now, journal);
        // Somebody may have taken its files away while it ran.
        self.look_for_files();
    }

    /// Does what was asked for, as far as it can be done at once. No reply means: when the service is settled.
    pub(crate) fn act(&mut self, request: Request, now: Instant, journal: &mut Journal) -> Option<Reply> {
        let Request::Unit { verb, unit } = request else {
            let units = self.each().map(|service| service.unit_status(now)).to_vec();
            return Some(Reply::Node(status::of_node(self.birth, &self.root, self.config.virtual_ip, units)));
        };
        if verb == Verb::Status {
            return Some(Reply::Status(self.service(unit).status(now)));
        }
        if self.closed {
            return Some(Reply::Refused("the node is going down".to_owned()));
        }
        self.look_for_files();
        let grace = self.config.graces.stop;
        let service = self.service(unit);
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
    pub(crate) fn settled(&mut self, unit: Unit, now: Instant) -> Option<Status> {
        let service = self.service(unit);
        service.is_settled().then(|| service.status(now))
    }

    /// From here on nobody is started.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for service in self.all() {
            service.unwant();
        }
    }

    pub(crate) fn drain(&mut self) {
        for service in self.all() {
            service.drain();
        }
    }

    /// The next timeout.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.each().into_iter().filter_map(Service::next_look).min()
    }

    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        self.each().map(AsFd::as_fd)
    }

    /// One line on how they stand.
    pub(crate) fn describe(&self, now: Instant) -> String {
        self.each().map(|service| service.status(now).to_string()).join("; ")
    }

    fn service(&mut self, unit: Unit) -> &mut Service {
        match unit {
            Unit::Containerd => &mut self.containerd,
            Unit::Kubelet => &mut self.kubelet,
            Unit::Keepalived => &mut self.keepalived,
        }
    }

    fn each(&self) -> [&Service; 3] {
        [&self.containerd, &self.kubelet, &self.keepalived]
    }

    fn all(&mut self) -> [&mut Service; 3] {
        [&mut self.containerd, &mut self.kubelet, &mut self.keepalived]
    }
}

fn plain(program: &Path) -> Launch {
    Launch { program: program.to_owned(), args: Vec::new(), env: Vec::new() }
}
