//! Programs and files inside one machine.

use std::io::{Read, Write};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::session::{Exit, Session, TtySize};

/// A program to run in a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cmd {
    pub argv: Vec<String>,
    /// Added to the machine's own environment.
    pub env: Vec<(String, String)>,
    /// Small input, known beforehand. What is larger, or comes with time, goes through [`Guest::open`].
    pub stdin: Vec<u8>,
    /// None: [`Cmd::DEFAULT_LIMIT`], or [`Cmd::BEGIN_LIMIT`] for a session.
    pub limit: Option<Duration>,
    /// How many bytes it may write to each of its outputs: a node must not fill the memory of its host. None:
    /// [`Cmd::DEFAULT_MAX_OUTPUT`].
    pub max_output: Option<usize>,
}

impl Cmd {
    /// How long a program may take that nobody has set a limit for: longer than any such does on a busy machine.
    pub const DEFAULT_LIMIT: Duration = Duration::from_mins(3);

    /// How long it may take until a program of a session runs: a node that swaps takes its time.
    pub const BEGIN_LIMIT: Duration = Duration::from_mins(1);

    /// How much a program may write that nobody has set a limit for.
    pub const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The same program with another limit.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// A line for the machine's shell.
    pub fn sh(line: impl Into<String>) -> Self {
        Self::new(["sh".to_owned(), "-c".to_owned(), line.into()])
    }
}

/// What a program that ended well left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl ExecOutput {
    /// Standard output as text, without the line ends at its end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches(['\n', '\r']).to_owned()
    }
}

/// Where bytes come from that go into a machine.
pub type Reader = Box<dyn Read + Send>;
/// Where bytes go that come out of a machine.
pub type Writer = Box<dyn Write + Send>;

/// A program in a machine failed, or could not be run there.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error("`{argv}` failed in node {node} with {exit}")]
    Failed { node: String, argv: String, exit: Exit, tail: Vec<String> },
    #[error("cannot run `{argv}` in node {node}")]
    Start { node: String, argv: String, source: std::io::Error },
    #[error("cannot {action} {path} in node {node}")]
    File { node: String, action: &'static str, path: String, source: std::io::Error },
    #[error("node {node} is frozen: did not try {what}")]
    Frozen { node: String, what: String },
    #[error("node {node} does not answer: {what} took longer than {} s", limit.as_secs())]
    TimedOut { node: String, what: String, limit: Duration },
    #[error("`{argv}` in node {node} wrote more than {limit} bytes")]
    TooMuchOutput { node: String, argv: String, limit: usize },
    #[error("node {node} was booted by another version of flotilla")]
    OtherVersion { node: String },
    #[error("node {node} is not running")]
    Off { node: String },
    #[error("node {node} cannot be reached: {why}")]
    Unknown { node: String, why: String },
    #[error("lost the connection to `{argv}` in node {node}")]
    Lost { node: String, argv: String },
    #[error("interrupted")]
    Interrupted,
}

impl GuestError {
    /// The node whose processes do not run, or not as they should.
    pub fn unresponsive(&self) -> Option<&str> {
        match self {
            Self::Frozen { node, .. } | Self::TimedOut { node, .. } => Some(node),
            _ => None,
        }
    }
}

/// Runs programs and moves files inside one machine. Every call ends within a limit of time, whatever the machine does.
#[async_trait]
pub trait Guest: Send + Sync {
    /// Runs a program to its end. An exit status other than 0 is an error, and so is more output than it may have: then it is
    /// killed.
    async fn run(&self, cmd: Cmd) -> Result<ExecOutput, GuestError>;

    /// Starts a program that somebody talks to while it runs, on a terminal of its own if there is a size for one. It may
    /// run for as long as it likes: `limit` is how long it may take to begin. Its input is the session's, not `stdin`.
    async fn open(&self, cmd: Cmd, tty: Option<TtySize>) -> Result<Session, GuestError>;

    /// Writes a file, whole or not at all; makes its directory.
    async fn write(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), GuestError>;

    /// Reads a file; none if there is none.
    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, GuestError>;

    /// Like [`Guest::write`], for files of any size: `source` is read to its end.
    async fn copy_in(&self, source: Reader, path: &str, mode: u32) -> Result<(), GuestError>;

    /// Writes a file of the machine to `target` and gives the file's mode. A file that does not exist is an error, and so is
    /// what is no file.
    async fn copy_out(&self, path: &str, target: Writer) -> Result<u32, GuestError>;
}
