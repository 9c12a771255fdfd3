//! What machines can do inside, as far as this driver decides it.

use std::fs;

use flotilla_core::{GuestFacts, MachineIsolation, MachineSpec};

/// In a user namespace nobody is root of the host.
pub(super) fn of(spec: &MachineSpec) -> GuestFacts {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_isolated = spec.isolation != MachineIsolation::None;
    GuestFacts { lowers_oom_scores: !is_isolated && may_lower_oom_scores(&status) }
}

/// Whether a process has `CAP_SYS_RESOURCE` (24), by its file in `/proc`.
fn may_lower_oom_scores(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> 24 & 1 == 1)
}

#[cfg(test)]
mod tests {
    use flotilla_testkit::fake;

    use super::*;

    #[test]
    fn the_capability_is_one_bit_of_many() {
        assert!(may_lower_oom_scores("Name:\tsh\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_lower_oom_scores("CapEff:\t000001fffeffffff\n"));
        assert!(!may_lower_oom_scores("CapBnd:\t000001ffffffffff\n"));
    }

    #[test]
    fn only_root_of_the_host_may_lower_them() {
        let cluster = fake::cluster("10.213.0.0/24");
        let isolation = MachineIsolation::User { ids: None };
        let spec = MachineSpec { isolation, ..MachineSpec::of(&cluster, &cluster.primary().unwrap()) };
        assert!(!of(&spec).lowers_oom_scores);
    }
}
