//! Limits of the host that all nodes share. They are raised permanently: see docs/networking.md.

use flotilla_linux::sysctl;

use crate::error::NativeError;

const RAISED: [(&str, u64); 2] = [
    // Each node needs some twenty; the usual 128 are used up by six nodes.
    ("fs/inotify/max_user_instances", 8192),
    ("fs/inotify/max_user_watches", 524_288),
];
/// The same for limits that matter only with many nodes and pods: if they cannot be raised, fewer fit.
const RAISED_IF_ALLOWED: [(&str, u64); 4] = [
    // The kernel has one table of neighbours for all nodes together: each has the others in it, and its pods twice. The
    // usual 1024 are used up by twelve nodes of 35 pods.
    ("net/ipv4/neigh/default/gc_thresh1", 4096),
    ("net/ipv4/neigh/default/gc_thresh2", 8192),
    ("net/ipv4/neigh/default/gc_thresh3", 16384),
    // A pod is some fifteen threads: twelve nodes of 110 pods come near the usual 32768.
    ("kernel/pid_max", 131_072),
];

/// The same for keys: each container has a keyring.
const KEYS: [(&str, u64); 2] =
    [("kernel/keys/root_maxkeys", 1_000_000), ("kernel/keys/root_maxbytes", 25_000_000)];
/// Root of a user namespace has the quota of any other user of the host: the usual one is for 200 containers.
const KEYS_OF_USERS: [(&str, u64); 2] =
    [("kernel/keys/maxkeys", 100_000), ("kernel/keys/maxbytes", 25_000_000)];

/// How many processes and threads a node may have at most. 110 pods have some 2000.
const PROCESSES: u64 = 32_768;
/// Settings of which all nodes and the host together cannot have more.
const PROCESSES_OF_ALL: [&str; 2] = ["kernel/pid_max", "kernel/threads-max"];

/// How many processes and threads one node may have: never more than half of what the host can have, so that a fork bomb
/// in a node leaves room for others.
pub(super) fn processes() -> u64 {
    let of_all = PROCESSES_OF_ALL.iter().filter_map(|setting| sysctl::get(setting).ok()?.parse::<u64>().ok());
    of_all.map(|all| all / 2).chain([PROCESSES]).min().unwrap_or(PROCESSES)
}

/// Checked before each boot: they may have been lowered.
pub(super) fn raise(has_user_namespace: bool) -> Result<(), NativeError> {
    for (setting, value) in RAISED {
        sysctl::raise(setting, value)?;
    }
    let of_users = KEYS_OF_USERS.into_iter().filter(|_| has_user_namespace);
    for (setting, value) in RAISED_IF_ALLOWED.into_iter().chain(KEYS).chain(of_users) {
        // A host inside another machine may not have them at all.
        let _ = sysctl::raise(setting, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_may_have_many_processes_but_never_all() {
        let most: u64 = sysctl::get("kernel/pid_max").unwrap().parse().unwrap();
        assert!((1000..=most / 2).contains(&processes()));
    }
}
