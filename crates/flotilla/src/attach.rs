//! Ties a session in a node to our own streams: what makes `flotilla ssh` feel as if the program ran here.
//!
//! On a terminal, keys go to the program as they are typed, Ctrl-C included. Elsewhere signals are passed on: the program
//! decides, and at the second one we end, and the program with us.

mod raw;
mod signals;

use std::io;

use flotilla_core::session::{Input, Output};
use flotilla_core::{DriverError, Exit, GuestError, Session};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::ssh::Streams;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cluster::Cx;
use crate::screen::{Console, Escape, Sink};
use raw::Raw;
use signals::{Came, Signals};

/// How much is passed on at once: what a pipe holds.
const CHUNK: usize = 1 << 16;

/// Whether the program gets what is typed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    Ours,
    Nobodys,
}

/// Our streams, for a program that somebody talks to.
pub(crate) fn streams(console: &Console) -> Streams {
    console.tty_size().map_or_else(|| plain_streams(console), Streams::Terminal)
}

/// Our streams, for a program whose output is shown.
pub(crate) fn plain_streams(console: &Console) -> Streams {
    if console.joins_outputs() { Streams::Joined } else { Streams::Apart }
}

/// Passes everything on, to and from this console, until the program ends. Gives its exit status, which is ours.
pub(crate) fn attach(
    cx: &Cx,
    console: &Console,
    session: Session,
    streams: Streams,
    typing: Typing,
) -> Result<u8, OpError> {
    cx.wait(async {
        let signals = if cx.handles_signals() { Signals::handle() } else { Ok(Signals::none()) };
        let signals = signals.map_err(at("handle", "signals"))?;
        let raw = matches!(streams, Streams::Terminal(_)).then(Raw::enter);
        let ended = pass_on(console, session, signals, (raw.is_some(), typing)).await;
        drop(raw);
        ended
    })
}

async fn pass_on(
    console: &Console,
    session: Session,
    mut signals: Signals,
    (is_raw, typing): (bool, Typing),
) -> Result<u8, OpError> {
    let Session { stdin, stdout, stderr, mut program } = session;
    let _feeding = (typing == Typing::Ours).then(|| Feeding(tokio::spawn(feed(console.input(), stdin))));
    let (ours, errors) = (console.stdout().map_err(output)?, console.stderr().map_err(output)?);
    // Who talks to a program wants its terminal as it is. Who looks at texts of a node does not.
    let escape = |on_terminal: bool| (on_terminal && typing == Typing::Nobodys).then(Escape::default);
    let escapes = (escape(console.shows_data()), escape(console.has_terminal()));
    let showing =
        async { tokio::try_join!(show(stdout, ours, escapes.0), show(stderr, errors, escapes.1)).map(drop) };
    tokio::pin!(showing);
    let (mut all_shown, mut signalled) = (false, false);
    loop {
        tokio::select! {
            shown = &mut showing, if !all_shown => {
                shown.map_err(output)?;
                all_shown = true;
            }
            // The streams of a program that has ended do end: first all of it is shown.
            exit = program.wait(), if all_shown => return exit.map(Exit::status).map_err(guest),
            came = signals.next() => match came {
                Came::Resized => if let Some(size) = console.tty_size() {
                    program.resize(size).await;
                },
                // With the program's handle the program ends.
                Came::Signal(signal) if is_raw || signalled => return Ok(signals::status(signal)),
                Came::Signal(signal) => {
                    signalled = true;
                    program.signal(signal).await;
                }
            },
        }
    }
}

/// Copies the program's output to one of our streams, to its end or until nobody reads ours any more. Then the program
/// is not read any more either, and notices as it would here.
async fn show(mut from: Output, mut to: Sink, mut escape: Option<Escape>) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        tokio::select! {
            read = from.read_buf(&mut chunk) => if read? == 0 {
                break;
            },
            () = to.closed() => break,
        }
        if let Some(escape) = &mut escape {
            chunk = escape.feed(&chunk).into_bytes();
        }
        if !to.write(chunk).await {
            break;
        }
    }
    if let Some(escape) = &mut escape {
        to.write(escape.finish().into_bytes()).await;
    }
    drop(from);
    match to.finish().await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Passes on what is typed, and its end, until the program does not read any more.
async fn feed(mut typed: mpsc::Receiver<Vec<u8>>, mut stdin: Input) {
    while let Some(bytes) = typed.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
    // A program that has ended needs no end of its input.
    let _ = stdin.shutdown().await;
}

/// Stops when dropped.
struct Feeding(JoinHandle<()>);

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn guest(error: GuestError) -> OpError {
    EngineError::Driver(DriverError::Guest(error)).into()
}

fn output(source: io::Error) -> OpError {
    at("write to", "the output")(source)
}

fn at(action: &'static str, what: &'static str) -> impl Fn(io::Error) -> OpError {
    move |source| EngineError::Io { action, path: what.into(), source }.into()
}

#[cfg(test)]
mod tests;
