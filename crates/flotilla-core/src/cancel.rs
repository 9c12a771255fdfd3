//! Ending what runs, from another thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says that a command is to end, and calls those who asked to know.
///
/// Clones are handles on the same thing. A thread that waits for Ctrl-C holds one, while others run programs and wait for
/// locks.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

type Callback = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    cancelled: bool,
    next: u64,
    callbacks: BTreeMap<u64, Callback>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

impl Cancel {
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls every registered callback. Cancelling again calls them again.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        for callback in state.callbacks.values() {
            callback();
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Calls back on a cancel, and at once if it has happened. Callbacks run under a lock that dropping the guard takes as
    /// well: once that has returned, the callback runs no more. It must be quick and must not use this `Cancel`.
    #[must_use = "the callback ends with the guard"]
    pub fn on_cancel(&self, callback: impl Fn() + Send + 'static) -> OnCancel {
        let mut state = self.lock();
        if state.cancelled {
            callback();
        }
        let id = state.next;
        state.next += 1;
        state.callbacks.insert(id, Box::new(callback));
        OnCancel { cancel: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered callback, until it is dropped.
#[derive(Debug)]
pub struct OnCancel {
    cancel: Cancel,
    id: u64,
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        self.cancel.lock().callbacks.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn callbacks_run_on_every_cancel_while_their_guard_lives() {
        let (cancel, calls) = (Cancel::new(), Arc::new(AtomicUsize::new(0)));
        let count = {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let guard = cancel.on_cancel(count.clone());
        assert!(!cancel.is_cancelled());
        cancel.clone().cancel();
        cancel.cancel();
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        drop(guard);
        cancel.cancel();
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        let _late = cancel.on_cancel(count);
        assert_eq!(calls.load(Ordering::Relaxed), 3, "it was cancelled before");
    }
}
