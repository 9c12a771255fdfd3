//! Client of PID 1's socket: one JSON line for the request, one for the reply.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use flotilla_node_api::{Reply, Request};

use crate::control;

/// PID 1 replies within 30 s; after that no reply will come.
const PATIENCE: Duration = control::PATIENCE.saturating_add(Duration::from_secs(5));

/// Asks PID 1 and waits for its answer.
pub(crate) fn ask(socket: &Path, request: &Request) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
