//! The signals PID 1 listens to.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::{flag, low_level::pipe};

/// Any of them takes the node down. SIGPWR is what a power button sends to an init.
const GO_DOWN: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::POWER];

/// Asks for a line about the state in the journal.
const TELL: Signal = Signal::USR1;

/// Mean nothing to us, but are listened to anyway: a signal that whoever started us had set to be ignored
/// would stay ignored in our children, one that has a handler goes back to its default there (execve(2)).
const MEANINGLESS: [Signal; 2] = [Signal::HUP, Signal::QUIT];

/// Signals that have come, as flags, and a pipe that wakes the one who waits.
#[derive(Debug)]
pub(crate) struct Signals {
    woken: UnixStream,
    go_down: Arc<AtomicBool>,
    tell: Arc<AtomicBool>,
}

impl Signals {
    /// From here on signals are flags, including those PID 1 would not get at all without a handler.
    pub(crate) fn watch() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let signals = Self { woken, go_down: Arc::default(), tell: Arc::default() };
        // Flags before the pipe: who is woken must see why.
        for signal in GO_DOWN {
            flag::register(signal.as_raw(), Arc::clone(&signals.go_down))?;
        }
        flag::register(TELL.as_raw(), Arc::clone(&signals.tell))?;
        for signal in GO_DOWN.into_iter().chain(MEANINGLESS).chain([TELL, Signal::CHILD]) {
            pipe::register(signal.as_raw(), wake.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Makes the pipe empty. The flags must be looked at afterwards, or a signal could be missed.
    pub(crate) fn drain(&mut self) {
        let mut bytes = [0; 256];
        while matches!(self.woken.read(&mut bytes), Ok(read) if read > 0) {}
    }

    /// Whether we were ever told to go down.
    pub(crate) fn going_down(&self) -> bool {
        self.go_down.load(Ordering::Acquire)
    }

    /// Whether somebody has asked for the state since the last call.
    pub(crate) fn take_tell(&self) -> bool {
        self.tell.swap(false, Ordering::AcqRel)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
