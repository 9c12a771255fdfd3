//! The way down, in order: keepalived, kubelet, other services, pods, containerd.
//!
//! Keepalived gives up the virtual IP while the API server still answers, so that its clients find the next one. The
//! kubelet goes before its pods, or it would start again what ends. Other services go before the pods, which they may
//! rely on. Containerd goes last: the shims that reap the pods' processes answer to it. Pods get SIGTERM, all at once, so
//! that etcd closes its files and a workload says good-bye. Before they get a signal they are thawed: a frozen process
//! takes no signal, and the kernel would let us wait for it for ever.

use std::path::Path;
use std::time::{Duration, Instant};

use flotilla_linux::cgroup::thaw_here;
use flotilla_node_api::Unit;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::config::Graces;
use crate::journal::Journal;
use crate::processes::{self, Process};
use crate::services::Services;

/// What survives a sudden death ([`Graces::system`]).
const SYSTEM: [&str; 7] =
    ["etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kube-proxy", "coredns", "keepalived"];

/// The services that are told to end first.
const FIRST: [Unit; 2] = [Unit::KEEPALIVED, Unit::KUBELET];

/// How often to look whether the pods have ended. Their processes are the shims' children: nobody tells us.
const LOOK: Duration = Duration::from_millis(20);

/// A node on its way down.
#[derive(Debug)]
pub(crate) struct Shutdown {
    graces: Graces,
    stage: Stage,
    since: Instant,
    /// When the stage is over, whoever is left.
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Address,
    Kubelet,
    Others,
    Pods,
    Containerd,
}

impl Shutdown {
    /// Begins with keepalived, and with the kubelet, who does not need it.
    pub(crate) fn begin(
        services: &mut Services<'_>,
        graces: &Graces,
        now: Instant,
        journal: &mut Journal,
    ) -> Self {
        services.close();
        services.end(|unit| FIRST.contains(unit), graces.service, now, journal);
        let until = now + Duration::from_millis(graces.address);
        Self { graces: graces.clone(), stage: Stage::Address, since: now, until }
    }

    fn enter(&mut self, stage: Stage, grace: u64, now: Instant) {
        (self.stage, self.since, self.until) = (stage, now, now + Duration::from_millis(grace));
    }

    /// Goes on as far as possible, and says whether everything is down.
    pub(crate) fn advance(
        &mut self,
        services: &mut Services<'_>,
        cgroups: &Path,
        now: Instant,
        journal: &mut Journal,
    ) -> bool {
        if self.stage == Stage::Address && (self.until <= now || services.pid(&Unit::KEEPALIVED).is_none()) {
            self.enter(Stage::Kubelet, self.graces.service, now);
        }
        if self.stage == Stage::Kubelet && (self.until <= now || services.pid(&Unit::KUBELET).is_none()) {
            let longest = services.end(is_other, self.graces.service, now, journal);
            self.enter(Stage::Others, longest, now);
        }
        if self.stage == Stage::Others && (self.until <= now || !services.any_runs(is_other)) {
            thaw(cgroups, journal);
            let pods = pods(services, journal);
            journal.say(format_args!("ending {} processes of pods", pods.len()));
            // Once: to many programs a second SIGTERM means "now". Who was between fork and exec has lost the first
            // one to a handler of its parent's, and is killed in the end.
            processes::signal_all(&pods, Signal::TERM);
            self.enter(Stage::Pods, self.graces.pods, now);
        }
        if self.stage == Stage::Pods {
            let left = pods(services, journal);
            let only_system = left.iter().all(|process| SYSTEM.contains(&process.name.as_str()));
            let system_over = only_system && self.since + Duration::from_millis(self.graces.system) <= now;
            if left.is_empty() || system_over || self.until <= now {
                if !left.is_empty() {
                    let names: Vec<_> = left.iter().map(Process::to_string).collect();
                    journal.say(format_args!("killing processes that did not exit: {}", names.join(", ")));
                    thaw(cgroups, journal);
                    processes::signal_all(&left, Signal::KILL);
                }
                let grace = services.end(is_containerd, self.graces.service, now, journal);
                self.enter(Stage::Containerd, grace, now);
            }
        }
        self.stage == Stage::Containerd && (self.until <= now || !services.any_runs(is_containerd))
    }

    /// The next timeout.
    pub(crate) fn next_look(&self, now: Instant) -> Instant {
        if self.stage == Stage::Pods { self.until.min(now + LOOK) } else { self.until }
    }
}

/// Kills everybody in this namespace but us.
pub(crate) fn kill_everybody(cgroups: &Path, journal: &mut Journal) {
    thaw(cgroups, journal);
    // kill(2): -1 means everybody we may signal, except PID 1 and ourselves. It fails if there is nobody.
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
}

fn is_containerd(unit: &Unit) -> bool {
    *unit == Unit::CONTAINERD
}

fn is_other(unit: &Unit) -> bool {
    !FIRST.contains(unit) && !is_containerd(unit)
}

/// Thaws all control groups of the node.
fn thaw(cgroups: &Path, journal: &mut Journal) {
    if let Err(error) = thaw_here(cgroups) {
        journal.say(format_args!("cannot thaw the control groups: {error}"));
    }
}

fn pods(services: &Services<'_>, journal: &mut Journal) -> Vec<Process> {
    processes::of_pods(services.pid(&Unit::CONTAINERD)).unwrap_or_else(|error| {
        journal.say(format_args!("cannot list the processes: {error}"));
        Vec::new()
    })
}
