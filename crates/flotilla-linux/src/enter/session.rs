//! Our side of a program in a machine that somebody talks to while it runs.
//!
//! A stage of our own binary enters the machine, starts the program and stays beside it: see [`stage`]. It hands us our
//! side of the program's terminal, or leaves our pipes to the program: so bytes take no way through it. Whoever opened the
//! session holds a socket, by which the stage knows that they are there.

mod stage;
mod streams;
mod wire;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::session::{self, ProgramDriver, Session};
use flotilla_core::{Cancel, Control, Exit, TtySize};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};

use super::{Handed, Request, terminal};
use crate::host::CommandError;
use crate::process::Process;
use streams::{Input, Output};
use wire::Report;

pub(super) use stage::run;

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Stage(#[from] CommandError),
    /// The program could not be started in the machine.
    #[error("{0}")]
    Failed(#[source] io::Error),
    #[error("it did not begin within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("interrupted")]
    Interrupted,
}

/// What the stage of a session is handed besides its request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Handover {
    /// The number of the descriptor that has our socket.
    pub(super) control: RawFd,
    pub(super) tty: Option<TtySize>,
}

/// A program in a machine, and who asks for it.
#[derive(Debug)]
pub struct Opening<'a> {
    /// PID 1.
    pub machine: &'a Process,
    /// What errors call the machine.
    pub name: &'a str,
    pub request: &'a Request,
    /// The size of its terminal, if it gets one.
    pub tty: Option<TtySize>,
    /// How long it may take until it runs.
    pub limit: Duration,
    pub cancel: &'a Cancel,
}

/// Starts a program in a running machine. It ends with the session's handle, with this process, and on a cancel.
pub async fn open(opening: Opening<'_>) -> Result<Session, OpenError> {
    let Opening { machine, name, request, tty, limit, cancel } = opening;
    let cancelled = Arc::new(Notify::new());
    let on_cancel = cancel.on_cancel({
        let cancelled = Arc::clone(&cancelled);
        move || cancelled.notify_one()
    });
    let (control, theirs) = sockets().map_err(OpenError::Failed)?;
    let (pipes, standard) = Pipes::new(tty.is_some()).map_err(OpenError::Failed)?;
    let theirs = Arc::new(theirs);
    let handover = Handover { control: theirs.as_raw_fd(), tty };
    let command = Handed::command(machine, request, Some(handover)).hand_over(&theirs);
    let mut stage = Stage(Some(command.start_apart(standard)?));
    drop(theirs);
    let first = tokio::select! {
        first = tokio::time::timeout(limit, receive(&control)) => first,
        () = cancelled.notified() => return Err(OpenError::Interrupted),
    };
    let master = match first {
        Ok(Ok(Some((Report::Started, master)))) => master,
        Ok(Ok(Some((Report::Failed { errno, text }, _)))) => {
            let source = errno.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error);
            return Err(OpenError::Failed(source));
        }
        Ok(Err(source)) => return Err(OpenError::Failed(source)),
        Ok(Ok(_)) => return Err(OpenError::Failed(io::ErrorKind::UnexpectedEof.into())),
        Err(_) => {
            stage.kill();
            return Err(OpenError::TimedOut(limit));
        }
    };
    let (ended, end) = watch::channel(false);
    let master = master.map(streams::ours).transpose().map_err(OpenError::Failed)?.map(Arc::new);
    let (stdin, stdout, stderr) = pipes.streams(master.as_ref(), &end).map_err(OpenError::Failed)?;
    let (program, driver) = session::program(name, &request.argv);
    tokio::spawn(async move {
        let ProgramDriver { mut requests, exit } = driver;
        let done = tokio::select! {
            done = follow(&control, &mut requests, master.as_deref()) => done,
            () = cancelled.notified() => Some(Err(flotilla_core::GuestError::Interrupted)),
        };
        // Before the exit status is told, so that the streams of a program that has ended do end.
        ended.send_replace(true);
        if let Some(done) = done {
            // Nobody waits for it.
            let _ = exit.send(done);
        }
        drop((on_cancel, stage));
    });
    Ok(Session { stdin, stdout, stderr, program })
}

/// Passes requests on until the program has ended. None: nobody holds it any more, or the stage is lost.
async fn follow(
    control: &AsyncFd<OwnedFd>,
    requests: &mut tokio::sync::mpsc::Receiver<Control>,
    master: Option<&AsyncFd<OwnedFd>>,
) -> Option<Result<Exit, flotilla_core::GuestError>> {
    loop {
        tokio::select! {
            report = receive(control) => return match report {
                Ok(Some((Report::Ended(exit), _))) => Some(Ok(exit)),
                _ => None,
            },
            request = requests.recv() => match request? {
                Control::Resize(size) => {
                    if let Some(master) = master {
                        // The terminal of a program that is about to end has no size any more.
                        let _ = terminal::resize(master.get_ref(), size);
                    }
                }
                // The buffer is never full: signals are rare and taken at once.
                Control::Signal(signal) => drop(wire::send(control.get_ref(), &signal, None)),
            },
        }
    }
}

async fn receive(control: &AsyncFd<OwnedFd>) -> io::Result<Option<(Report, Option<OwnedFd>)>> {
    control.async_io(Interest::READABLE, |fd| wire::receive(fd)).await
}

fn sockets() -> io::Result<(AsyncFd<OwnedFd>, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((streams::ours(ours)?, theirs))
}

/// Our ends of the program's standard streams; none where it has a terminal.
struct Pipes(Option<[OwnedFd; 3]>);

type Streams = (session::Input, session::Output, session::Output);

impl Pipes {
    /// With what the stage gets for its own.
    fn new(has_terminal: bool) -> io::Result<(Self, [Stdio; 3])> {
        if has_terminal {
            return Ok((Self(None), [Stdio::null(), Stdio::null(), Stdio::null()]));
        }
        let ((their_in, stdin), (stdout, their_out), (stderr, their_err)) =
            (io::pipe()?, io::pipe()?, io::pipe()?);
        let ours = [stdin.into(), stdout.into(), stderr.into()];
        Ok((Self(Some(ours)), [their_in.into(), their_out.into(), their_err.into()]))
    }

    fn streams(
        self,
        master: Option<&Arc<AsyncFd<OwnedFd>>>,
        end: &watch::Receiver<bool>,
    ) -> io::Result<Streams> {
        let output = |fd| -> session::Output { Box::new(Output::new(fd, end.clone())) };
        let pipe = |fd| streams::ours(fd).map(Arc::new);
        match (self.0, master) {
            (Some([stdin, stdout, stderr]), _) => {
                let stdin = Box::new(Input::pipe(streams::ours(stdin)?));
                Ok((stdin, output(pipe(stdout)?), output(pipe(stderr)?)))
            }
            (None, Some(master)) => {
                let stdin = Box::new(Input::terminal(Arc::clone(master)));
                Ok((stdin, output(Arc::clone(master)), Box::new(tokio::io::empty())))
            }
            (None, None) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The stage, which ends soon after its socket is closed. It is reaped when it has.
struct Stage(Option<Child>);

impl Stage {
    /// Ends a stage that cannot notice. Its program dies with it, or when it is thawed.
    fn kill(&mut self) {
        if let Some(stage) = &mut self.0 {
            drop(stage.kill());
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(mut stage) = self.0.take() {
            std::thread::spawn(move || drop(stage.wait()));
        }
    }
}
