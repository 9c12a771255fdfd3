//! The one place that sleeps: for what the kernel tells nobody about.

use std::time::Duration;

/// Waits before looking again.
#[expect(
    clippy::disallowed_methods,
    reason = "no event tells that another process gave back a lock, or that a dead one has left its cgroup"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
