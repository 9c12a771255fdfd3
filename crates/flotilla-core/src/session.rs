//! A program in a machine that somebody talks to while it runs.
//!
//! What crosses is bytes in bounded streams and plain data ([`Control`], [`Exit`]): a driver may carry it over a pipe, a
//! virtual serial line or a network.

use std::fmt;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use crate::GuestError;

/// How many requests may wait for a driver.
const REQUESTS: usize = 16;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TtySize {
    pub rows: u16,
    pub columns: u16,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    Code(u8),
    /// The number of the signal that ended it.
    Signal(u8),
}

impl Exit {
    /// As shells have it in `$?`.
    pub fn status(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What can be sent to a program and its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    Hangup,
    Interrupt,
    Quit,
    Terminate,
    Kill,
}

/// What can be asked of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Control {
    Resize(TtySize),
    Signal(Signal),
}

/// A program's standard input. `shutdown` ends it, and so does dropping it; on a terminal only `shutdown` does, by the
/// terminal's end-of-file character.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;
/// A program's output. It ends when the program has ended and everything that the program wrote has been read, even if
/// processes that it left behind hold the stream open.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// A program that runs in a machine, with a stream for each of its standard streams.
pub struct Session {
    pub stdin: Input,
    pub stdout: Output,
    /// Empty if the program has a terminal: all its output is in `stdout`.
    pub stderr: Output,
    /// The program ends with it.
    pub program: ProgramHandle,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Holds a running program. Dropped before the program has ended, it ends the program and its process group.
#[derive(Debug)]
pub struct ProgramHandle {
    node: String,
    argv: String,
    requests: mpsc::Sender<Control>,
    exit: oneshot::Receiver<Result<Exit, GuestError>>,
}

impl ProgramHandle {
    /// Gives the program's terminal another size. Ignored if it has none, or has ended.
    pub async fn resize(&self, size: TtySize) {
        self.ask(Control::Resize(size)).await;
    }

    /// Sends a signal to the program and its process group. Ignored if it has ended.
    pub async fn signal(&self, signal: Signal) {
        self.ask(Control::Signal(signal)).await;
    }

    async fn ask(&self, control: Control) {
        // The driver hangs up when the program has ended.
        let _ = self.requests.send(control).await;
    }

    /// Waits for the end of the program. Gives its exit status once; may be cancelled and called again before that.
    pub async fn wait(&mut self) -> Result<Exit, GuestError> {
        let lost = || GuestError::Lost { node: self.node.clone(), argv: self.argv.clone() };
        if self.exit.is_terminated() {
            return Err(lost());
        }
        (&mut self.exit).await.unwrap_or_else(|_| Err(lost()))
    }
}

/// The driver's side of a [`ProgramHandle`].
#[derive(Debug)]
pub struct ProgramDriver {
    /// What is asked of the program. It ends when the handle is dropped: then the program is to end.
    pub requests: mpsc::Receiver<Control>,
    /// Where the program's end is told, once. Dropped without it, the program is lost.
    pub exit: oneshot::Sender<Result<Exit, GuestError>>,
}

/// Both sides of a program in this node.
pub fn program(node: impl Into<String>, argv: &[String]) -> (ProgramHandle, ProgramDriver) {
    let (sender, requests) = mpsc::channel(REQUESTS);
    let (exit, exited) = oneshot::channel();
    let handle = ProgramHandle { node: node.into(), argv: argv.join(" "), requests: sender, exit: exited };
    (handle, ProgramDriver { requests, exit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_from_a_code_and_shown_as_shells_do() {
        assert_eq!(Exit::Code(7).status(), 7);
        assert_eq!(Exit::Signal(15).status(), 143);
        let json = serde_json::to_string(&[Exit::Code(7), Exit::Signal(15)]).unwrap();
        assert_eq!(json, r#"[{"code":7},{"signal":15}]"#);
    }

    #[tokio::test]
    async fn the_end_is_told_once_and_a_driver_that_goes_away_is_an_error() {
        let (mut handle, driver) = program("demo", &["sleep".to_owned(), "1".to_owned()]);
        driver.exit.send(Ok(Exit::Code(3))).unwrap();
        assert_eq!(handle.wait().await.unwrap(), Exit::Code(3));
        assert!(matches!(handle.wait().await, Err(GuestError::Lost { .. })));

        let (mut handle, driver) = program("demo", &["sleep".to_owned(), "1".to_owned()]);
        drop(driver);
        handle.signal(Signal::Kill).await;
        let error = handle.wait().await.unwrap_err();
        assert_eq!(error.to_string(), "lost the connection to `sleep 1` in node demo");
    }
}
