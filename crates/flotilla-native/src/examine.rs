//! Checks the host.
//!
//! [`Facts::gather`] collects facts, [`judge`] evaluates them: so every finding can be tested without a matching
//! host. Each check gives exactly one finding, also if all is well.

use std::path::Path;

use flotilla_core::{Finding, Severity};

mod facts;
mod filter;
mod host;
mod network;
mod resources;
#[cfg(test)]
mod tests;

use facts::Facts;

/// Collects everything that machines need. Blocks for some milliseconds, and changes nothing.
pub(super) fn examine(home: &Path) -> Vec<Finding> {
    judge(&Facts::gather(home))
}

/// Evaluates the facts. The order is that of the output; the first fatal one gives the exit status.
fn judge(facts: &Facts) -> Vec<Finding> {
    let checks = [
        host::permission,
        host::kernel,
        host::namespaces,
        host::cgroups,
        host::overlay,
        host::images,
        host::state_folder_is_writable,
        host::state_folder,
        host::inotify,
        host::open_files,
        host::oom_scores,
        host::selinux,
        resources::cpus,
        resources::memory,
        resources::disk,
        network::forwarding,
        network::packet_filter,
        network::legacy_iptables,
        network::firewalld,
        network::firewall,
        network::subnets,
        network::name_server,
    ];
    checks.iter().map(|check| check(facts)).collect()
}

/// The name and exit status of a check.
pub(super) struct Check {
    code: &'static str,
    exit_status: u8,
}

impl Check {
    pub(super) const fn new(code: &'static str, exit_status: u8) -> Self {
        Self { code, exit_status }
    }

    pub(super) fn good(&self, text: impl Into<String>) -> Finding {
        self.finding(Severity::Good, text, "")
    }

    pub(super) fn warning(&self, text: impl Into<String>, cure: impl Into<String>) -> Finding {
        self.finding(Severity::Warning, text, cure)
    }

    pub(super) fn fatal(&self, text: impl Into<String>, cure: impl Into<String>) -> Finding {
        self.finding(Severity::Fatal, text, cure)
    }

    fn finding(&self, severity: Severity, text: impl Into<String>, cure: impl Into<String>) -> Finding {
        let Self { code, exit_status } = *self;
        Finding { code, exit_status, severity, text: text.into(), cure: cure.into() }
    }
}
