//! How a node is, as PID 1 tells it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use flotilla_linux::net::Net;
use flotilla_node_api::{Cgroup, NodeStatus, PROTOCOL, UnitStatus};
use ipnet::Ipv4Net;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::root::Root;

/// When PID 1 began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth {
    /// By the clock, which others may set.
    at: SystemTime,
    /// By the time since the kernel was booted, which nobody can.
    since_boot: Timespec,
}

impl Birth {
    pub(crate) fn now() -> Self {
        Self { at: SystemTime::now(), since_boot: clock_gettime(ClockId::Boottime) }
    }

    fn unix_seconds(self) -> i64 {
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }

    fn age(self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::try_from(now - self.since_boot).unwrap_or_default()
    }
}

/// How the node is whose API's address would be `virtual_ip`.
pub(crate) fn of_node(
    birth: Birth,
    root: &Root,
    virtual_ip: Option<Ipv4Net>,
    units: Vec<UnitStatus>,
) -> NodeStatus {
    NodeStatus {
        protocol: PROTOCOL,
        booted_at: birth.unix_seconds(),
        up_for_ms: u64::try_from(birth.age().as_millis()).unwrap_or(u64::MAX),
        cgroup: cgroup(&root.cgroups()),
        units,
        holds_virtual_ip: virtual_ip.is_some_and(holds),
    }
}

fn cgroup(mounted_at: &Path) -> Cgroup {
    if mounted_at.join("cgroup.controllers").exists() { Cgroup::V2 } else { Cgroup::V1 }
}

fn holds(address: Ipv4Net) -> bool {
    let addresses = Net::here().and_then(|net| net.addresses());
    addresses.is_ok_and(|addresses| addresses.iter().any(|has| has.address.addr() == address.addr()))
}
