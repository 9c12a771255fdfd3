//! PID 1's socket: one JSON line for the request, one for the reply.
//!
//! ```text
//! {"verb":"restart","unit":"kubelet"}
//! {"status":{"unit":"kubelet","state":"active","detail":"pid 42 for 0 s, started 2 times"}}
//! ```

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use flotilla_node_api::{Reply, Request, Status, Unit};

/// Time limit of a connection for sending its request or receiving the reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// No request is that long.
const LONGEST_REQUEST: usize = 4096;

/// The socket and its connections.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    /// The service that the reply waits for, once the request is there.
    waits_for: Option<Unit>,
    until: Instant,
}

impl Control {
    /// Listens at `path`, for root only.
    pub(crate) fn listen(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, connections: Vec::new() })
    }

    /// Reads requests and passes them to `act`. If that returns no reply, [`Control::answer`] sends one later.
    pub(crate) fn receive(&mut self, now: Instant, mut act: impl FnMut(Request) -> Option<Reply>) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                let until = now + PATIENCE;
                self.connections.push(Connection { stream, received: Vec::new(), waits_for: None, until });
            }
        }
        self.connections.retain_mut(|connection| connection.receive(&mut act));
    }

    /// Replies to requests whose service has reached its state, and to those that timed out.
    pub(crate) fn answer(&mut self, now: Instant, mut settled: impl FnMut(&Unit) -> Option<Status>) {
        self.connections.retain_mut(|connection| {
            let late = connection.until <= now;
            let Some(unit) = &connection.waits_for else { return !late };
            let reply = match settled(unit) {
                Some(status) => Reply::Status(status),
                None if late => Reply::Refused(format!("{unit} is not done after {PATIENCE:?}")),
                None => return true,
            };
            connection.reply(&reply);
            false
        });
    }

    /// The next timeout.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.connections.iter().map(|connection| connection.until).min()
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connected = self.connections.iter().map(|connection| connection.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(connected)
    }
}

impl Connection {
    /// Reads, acts on a complete request, and returns whether the connection is still open.
    fn receive(&mut self, act: &mut impl FnMut(Request) -> Option<Reply>) -> bool {
        let mut bytes = [0; LONGEST_REQUEST];
        let read = match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(error) => {
                return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            }
        };
        self.received.extend_from_slice(&bytes[..read]);
        let Some(end) = self.received.iter().position(|byte| *byte == b'\n') else {
            return self.received.len() < LONGEST_REQUEST;
        };
        if self.waits_for.is_some() {
            // One request to a connection: what follows it is not read.
            return true;
        }
        let reply = match serde_json::from_slice::<Request>(&self.received[..end]) {
            Ok(request) => {
                if let Request::Unit { unit, .. } = &request {
                    self.waits_for = Some(unit.clone());
                }
                act(request)
            }
            Err(error) => Some(Reply::Refused(format!("not a request: {error}"))),
        };
        reply.as_ref().is_none_or(|reply| {
            self.reply(reply);
            false
        })
    }

    fn reply(&mut self, reply: &Reply) {
        let mut line = serde_json::to_vec(reply).expect("a reply is made of strings");
        line.push(b'\n');
        // It fits into the socket's buffer; a closed connection is ignored.
        drop(self.stream.write_all(&line));
    }
}

#[cfg(test)]
mod tests;
