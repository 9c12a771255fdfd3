//! The streams of a session, on our side of pipes or of a terminal.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionbio};
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// What a pipe and a terminal hold at most. The last words of a program that has ended are among so many bytes.
const BUFFERED: usize = 1 << 16;
/// How long a stream stays open after the program's end for what the program left behind.
const LINGER: Duration = Duration::from_millis(200);

/// A descriptor of our side: reads and writes never wait.
#[expect(unsafe_code, reason = "a promise about a descriptor")]
pub(super) fn ours(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    ioctl_fionbio(&fd, true)?;
    // SAFETY: an `OwnedFd` is open and stays the same until it is dropped, with what it is moved into here.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Reads what a program writes.
pub(super) struct Output {
    fd: Arc<AsyncFd<OwnedFd>>,
    /// Is ready some time after the program has ended.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// How much more is read, once that is limited.
    left: Option<usize>,
}

impl Output {
    pub(super) fn new(fd: Arc<AsyncFd<OwnedFd>>, mut ended: watch::Receiver<bool>) -> Self {
        let over = async move {
            // Who knows of the end tells it, or goes away.
            let _ = ended.wait_for(|ended| *ended).await;
            tokio::time::sleep(LINGER).await;
        };
        Self { fd, over: Box::pin(over), left: None }
    }

    /// Reads what is there without waiting for more: something holds the stream although the program has ended.
    fn read_rest(&mut self, left: usize, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let wanted = left.min(buffer.remaining());
        let read = loop {
            match read(self.fd.get_ref(), buffer.initialize_unfilled_to(wanted)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                other => break other?,
            }
        };
        buffer.advance(read);
        self.left = Some(if read == 0 { 0 } else { left - read });
        Ok(())
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.is_none() && self.over.as_mut().poll(cx).is_ready() {
            self.left = Some(BUFFERED);
        }
        if let Some(left) = self.left {
            return Poll::Ready(self.read_rest(left, buffer));
        }
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            match ready.try_io(|fd| read(fd.get_ref(), buffer.initialize_unfilled())) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(done) => {
                    buffer.advance(done?);
                    return Poll::Ready(Ok(()));
                }
                Err(_would_block) => {}
            }
        }
    }
}

fn read(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(fd, buffer) {
        // The last process that had the terminal open is gone.
        Err(Errno::IO) => Ok(0),
        other => Ok(other?),
    }
}

/// Writes what a program reads.
pub(super) struct Input {
    /// None: it has been closed.
    fd: Option<Arc<AsyncFd<OwnedFd>>>,
    is_terminal: bool,
}

impl Input {
    pub(super) fn pipe(fd: AsyncFd<OwnedFd>) -> Self {
        Self { fd: Some(Arc::new(fd)), is_terminal: false }
    }

    pub(super) fn terminal(fd: Arc<AsyncFd<OwnedFd>>) -> Self {
        Self { fd: Some(fd), is_terminal: true }
    }
}

impl AsyncWrite for Input {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(fd) = &self.fd else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        loop {
            let mut ready = ready!(fd.poll_write_ready(cx))?;
            match ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nobody has the terminal open.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
                Ok(done) => return Poll::Ready(done),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = self.fd.as_ref().filter(|_| self.is_terminal).and_then(|fd| end_of_file(fd.get_ref()));
        if let Some(end) = end {
            ready!(self.as_mut().poll_write(cx, &[end]))?;
        }
        self.fd = None;
        Poll::Ready(Ok(()))
    }
}

/// The character that ends the input of a program that reads lines; one that reads keys knows no end.
fn end_of_file(master: &OwnedFd) -> Option<u8> {
    let modes = tcgetattr(master).ok().filter(|modes| modes.local_modes.contains(LocalModes::ICANON))?;
    Some(modes.special_codes[SpecialCodeIndex::VEOF])
}
