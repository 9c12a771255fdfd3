//! Ending running programs from another thread.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// Ends every program it is attached to, and keeps new ones from starting.
///
/// Clones are handles on the same thing. Meant to be held by a thread that waits for Ctrl-C, while others run
/// programs and wait for locks.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    /// Leaders of the process groups of running children, none of them reaped yet: as long as a child is not
    /// waited for, the kernel gives its number to nobody else. So a signal sent under the lock meets the child
    /// or its zombie, never a stranger.
    groups: HashSet<Pid>,
}

impl Cancel {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends SIGTERM to the process group of every attached program, and makes later ones fail at once.
    ///
    /// Does not wait for them to end: the threads that run them do. Calling it again sends the signal again.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        for group in &state.groups {
            terminate(*group);
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Registers a child that leads its own process group and has not been waited for.
    ///
    /// If the cancel came while the child was being started, it gets its signal now.
    pub(super) fn attach(&self, group: Pid) -> Attached {
        let mut state = self.lock();
        state.groups.insert(group);
        if state.cancelled {
            terminate(group);
        }
        Attached { cancel: self.clone(), group }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A child's entry in the registry. Must be dropped before the child is reaped.
#[derive(Debug)]
pub(super) struct Attached {
    cancel: Cancel,
    group: Pid,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.cancel.lock().groups.remove(&self.group);
    }
}

fn terminate(group: Pid) {
    // It can fail only because the child has changed its identity or is a zombie: nothing to do about either.
    let _ = kill_process_group(group, Signal::TERM);
}
