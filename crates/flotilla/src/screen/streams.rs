//! Our standard streams as bytes, for programs in nodes that have them.
//!
//! Each is read or written by a thread of its own that nobody waits for: a terminal that nobody types at, or a pipe that
//! nobody reads, must not keep us from ending.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};

use flotilla_core::TtySize;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize};
use tokio::sync::{mpsc, oneshot};

/// How many chunks may wait.
const IN_FLIGHT: usize = 4;
const CHUNK: usize = 1 << 16;
/// What a terminal has that does not say.
const USUAL: TtySize = TtySize { rows: 24, columns: 80 };

/// Takes bytes for one of our outputs.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Vec<u8>>,
    written: oneshot::Receiver<io::Result<()>>,
    /// Is told when nobody reads the stream any more.
    closed: oneshot::Receiver<()>,
}

impl Sink {
    /// Hands chunks to `write` in a thread; `watched` is looked at for its end.
    pub(super) fn new(
        mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
        watched: Option<OwnedFd>,
    ) -> Self {
        let (chunks, mut waiting) = mpsc::channel::<Vec<u8>>(IN_FLIGHT);
        let (done, written) = oneshot::channel();
        let (close, closed) = oneshot::channel();
        std::thread::spawn(move || {
            let mut all = || -> io::Result<()> {
                while let Some(chunk) = waiting.blocking_recv() {
                    write(&chunk)?;
                }
                Ok(())
            };
            let all = all();
            // Whoever hands over more is told at once.
            drop(waiting);
            let _ = done.send(all);
        });
        if let Some(watched) = watched {
            std::thread::spawn(move || {
                wait_for_end(&watched);
                let _ = close.send(());
            });
        }
        Self { chunks, written, closed }
    }

    /// False: nothing more can be written.
    pub(crate) async fn write(&mut self, chunk: Vec<u8>) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }

    /// Waits until nobody reads the stream any more.
    pub(crate) async fn closed(&mut self) {
        if self.closed.is_terminated() || (&mut self.closed).await.is_err() {
            // Nobody looks.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.chunks);
        self.written.await.unwrap_or(Ok(()))
    }
}

/// A pipe or terminal has no reader any more. Files never end.
fn wait_for_end(stream: &OwnedFd) {
    let mut ended = [PollFd::new(stream, PollFlags::empty())];
    while poll(&mut ended, None) == Err(rustix::io::Errno::INTR) {}
}

pub(super) fn of_stdout() -> io::Result<Sink> {
    of(stdout())
}

pub(super) fn of_stderr() -> io::Result<Sink> {
    of(stderr())
}

fn of(stream: BorrowedFd<'_>) -> io::Result<Sink> {
    let mut file = File::from(stream.try_clone_to_owned()?);
    Ok(Sink::new(move |chunk| file.write_all(chunk), Some(stream.try_clone_to_owned()?)))
}

/// What is typed or piped to us. It ends with our input.
pub(super) fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, typed) = mpsc::channel(IN_FLIGHT);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; CHUNK];
        while is_ours_to_read() {
            match stdin.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(read @ 1..) => {
                    if sender.blocking_send(buffer[..read].to_vec()).is_err() {
                        return;
                    }
                }
                Ok(0) | Err(_) => return,
            }
        }
    });
    typed
}

/// Waits for input. A job in the background has none: reading from the terminal would stop the whole process.
fn is_ours_to_read() -> bool {
    let mut ready = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
    while poll(&mut ready, None) == Err(rustix::io::Errno::INTR) {}
    tcgetpgrp(stdin()).map_or(true, |foreground| foreground == getpgrp())
}

/// The size of our terminal, if both input and output are on one.
pub(super) fn tty_size() -> Option<TtySize> {
    if !isatty(stdin()) || !isatty(stdout()) {
        return None;
    }
    let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    Some(size.map_or(USUAL, |size| TtySize { rows: size.ws_row, columns: size.ws_col }))
}

/// Whether standard output and error are the same file, pipe or terminal.
pub(super) fn are_joined() -> bool {
    let which = |fd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino, stat.st_rdev));
    matches!((which(stdout()), which(stderr())), (Ok(out), Ok(err)) if out == err)
}
