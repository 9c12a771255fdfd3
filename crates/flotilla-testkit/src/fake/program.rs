//! Programs that follow a script, for sessions in machines that run none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flotilla_core::session::{self, ProgramDriver};
use flotilla_core::{Control, Exit, Session, Signal, TtySize};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// How much of a stream may wait to be read.
const BUFFERED: usize = 1 << 16;

/// One thing that a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Prints to standard output.
    Say(&'static str),
    /// Prints to standard error; on a terminal there is none.
    Complain(&'static str),
    /// Prints what it reads, to the end of its input.
    Echo,
    /// Prints the size of its terminal, as `stty size` does.
    Size,
    /// Waits for another size.
    AwaitResize,
    /// Goes on when this signal comes. Another one ends it.
    Await(Signal),
    /// Does nothing until a signal ends it.
    Hang,
    /// Does nothing, whatever is sent to it.
    Ignore,
    /// Ends, with other than 0.
    End(Exit),
    /// Does not exist.
    Missing,
}

/// What the programs of some machines do: the first whose key is in a command's words is followed, as often as it is
/// opened. One without a script does nothing. Clones are handles on the same scripts.
#[derive(Debug, Clone, Default)]
pub struct Programs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    scripts: Vec<(&'static str, &'static [Act])>,
    opened: Vec<Opened>,
}

/// How a program was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub node: String,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub tty: Option<TtySize>,
}

impl Programs {
    /// Lets programs whose words contain `key` do this from now on.
    pub fn add(&self, key: &'static str, acts: &'static [Act]) {
        self.state().scripts.insert(0, (key, acts));
    }

    /// What was opened until now.
    pub fn opened(&self) -> Vec<Opened> {
        self.state().opened.clone()
    }

    /// None: there is no such program.
    pub(super) fn open(&self, opened: &Opened) -> Option<Session> {
        let mut state = self.state();
        let words = opened.argv.join(" ");
        let script = state.scripts.iter().find(|(key, _)| words.contains(key));
        let acts: &[_] = script.map_or(&[], |(_, acts)| acts);
        state.opened.push(opened.clone());
        (!acts.contains(&Act::Missing)).then(|| open(opened, acts))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session with a program that does this.
fn open(Opened { node, argv, tty, .. }: &Opened, acts: &'static [Act]) -> Session {
    let (stdin, their_stdin) = tokio::io::duplex(BUFFERED);
    let (stdout, their_stdout) = tokio::io::duplex(BUFFERED);
    let (stderr, their_stderr) = tokio::io::duplex(BUFFERED);
    let (program, driver) = session::program(node.as_str(), argv);
    let ProgramDriver { requests, exit } = driver;
    let streams = (their_stdin, their_stdout, their_stderr);
    let mut running = Running { streams, requests, tty: *tty };
    tokio::spawn(async move {
        let end = running.follow(acts).await;
        // The streams end before the end is told.
        drop(running);
        if let Some(end) = end {
            let _ = exit.send(Ok(end));
        }
    });
    let stderr: session::Output = if tty.is_some() { Box::new(tokio::io::empty()) } else { Box::new(stderr) };
    Session { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, program }
}

struct Running {
    streams: (DuplexStream, DuplexStream, DuplexStream),
    requests: mpsc::Receiver<Control>,
    tty: Option<TtySize>,
}

impl Running {
    /// Until it ends. None: nobody holds it any more.
    async fn follow(&mut self, acts: &[Act]) -> Option<Exit> {
        for act in acts {
            match *act {
                Act::Say(text) => {
                    let writing = self.streams.1.write_all(text.as_bytes());
                    unless_dropped(&mut self.requests, writing).await?;
                }
                Act::Complain(text) => {
                    let stream = if self.tty.is_some() { &mut self.streams.1 } else { &mut self.streams.2 };
                    unless_dropped(&mut self.requests, stream.write_all(text.as_bytes())).await?;
                }
                Act::Echo => {
                    let copying = tokio::io::copy(&mut self.streams.0, &mut self.streams.1);
                    unless_dropped(&mut self.requests, copying).await?;
                }
                Act::Size => {
                    let size = self.tty.map(|TtySize { rows, columns }| format!("{rows} {columns}\r\n"));
                    let text = size.unwrap_or_default();
                    let writing = self.streams.1.write_all(text.as_bytes());
                    unless_dropped(&mut self.requests, writing).await?;
                }
                Act::AwaitResize => match self.requests.recv().await? {
                    Control::Resize(size) => self.tty = Some(size),
                    Control::Signal(signal) => return Some(ended_by(signal)),
                },
                Act::Await(awaited) => loop {
                    match self.requests.recv().await? {
                        Control::Signal(signal) if signal == awaited => break,
                        Control::Signal(signal) => return Some(ended_by(signal)),
                        Control::Resize(size) => self.tty = Some(size),
                    }
                },
                Act::Hang => loop {
                    if let Control::Signal(signal) = self.requests.recv().await? {
                        return Some(ended_by(signal));
                    }
                },
                Act::Ignore => loop {
                    self.requests.recv().await?;
                },
                Act::End(exit) => return Some(exit),
                Act::Missing => return None,
            }
        }
        Some(Exit::Code(0))
    }
}

/// Does something, as long as somebody holds the program. A program whose reader is gone goes on: most do not notice.
async fn unless_dropped<T>(
    requests: &mut mpsc::Receiver<Control>,
    work: impl Future<Output = std::io::Result<T>>,
) -> Option<()> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            _ = &mut work => return Some(()),
            request = requests.recv() => request.map(drop)?,
        }
    }
}

fn ended_by(signal: Signal) -> Exit {
    Exit::Signal(match signal {
        Signal::Hangup => 1,
        Signal::Interrupt => 2,
        Signal::Quit => 3,
        Signal::Kill => 9,
        Signal::Terminate => 15,
    })
}
