//! Limits of the host that all nodes share. They are raised permanently: see docs/networking.md.

use flotilla_linux::sysctl;

use super::error::NativeError;

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

/// Checked before each boot: they may have been lowered.
pub(super) fn raise() -> Result<(), NativeError> {
    for (setting, value) in RAISED {
        sysctl::raise(setting, value)?;
    }
    for (setting, value) in RAISED_IF_ALLOWED {
        // A host inside another machine may not have them at all.
        let _ = sysctl::raise(setting, value);
    }
    Ok(())
}
