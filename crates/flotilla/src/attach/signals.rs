//! What signals mean while a program in a node runs.

use std::io;

use flotilla_core::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// Our terminal has another size.
    Resized,
    /// To be passed on, or to be obeyed.
    Signal(Signal),
}

/// The signals that come to the process; none, where the process is a test's.
pub(super) struct Signals(Option<mpsc::Receiver<Came>>);

impl Signals {
    pub(super) fn none() -> Self {
        Self(None)
    }

    #[cfg(test)]
    pub(super) fn from(came: mpsc::Receiver<Came>) -> Self {
        Self(Some(came))
    }

    /// From here on they do not end the process any more.
    pub(super) fn handle() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut resized = signal(SignalKind::window_change())?;
        let (sender, came) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    _ = interrupt.recv() => Came::Signal(Signal::Interrupt),
                    _ = quit.recv() => Came::Signal(Signal::Quit),
                    _ = terminate.recv() => Came::Signal(Signal::Terminate),
                    _ = hangup.recv() => Came::Signal(Signal::Hangup),
                    _ = resized.recv() => Came::Resized,
                };
                if sender.send(next).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self(Some(came)))
    }

    pub(super) async fn next(&mut self) -> Came {
        let next = match &mut self.0 {
            Some(came) => came.recv().await,
            None => None,
        };
        match next {
            Some(came) => came,
            None => std::future::pending().await,
        }
    }
}

/// What a shell shows as the status of a program that this ended.
pub(super) fn status(signal: Signal) -> u8 {
    let kind = match signal {
        Signal::Hangup => SignalKind::hangup(),
        Signal::Interrupt => SignalKind::interrupt(),
        Signal::Quit => SignalKind::quit(),
        Signal::Terminate => SignalKind::terminate(),
        Signal::Kill => SignalKind::from_raw(9),
    };
    u8::try_from(kind.as_raw_value()).unwrap_or_default().saturating_add(128)
}
