//! What can go wrong with a program on the host.

use std::io;
use std::time::Duration;

use flotilla_core::Exit;

/// A program could not be started, failed, or was cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("cannot find the program {program}")]
    NotFound { program: String },
    #[error("cannot start {program}")]
    Start { program: String, source: io::Error },
    /// The program ran and did not end with exit status 0.
    #[error("`{argv}` failed with {exit}")]
    Failed {
        /// Program and arguments, quoted for a shell.
        argv: String,
        exit: Exit,
        /// Its last lines on standard error, or on standard output if the former is empty.
        tail: Vec<String>,
    },
    /// It was killed at the end of its time.
    #[error("`{argv}` did not end within {} s", limit.as_secs())]
    TimedOut { argv: String, limit: Duration },
    /// It was killed when it had written that many bytes.
    #[error("`{argv}` wrote more than {limit} bytes")]
    TooMuchOutput { argv: String, limit: usize },
    #[error("{program} was cancelled")]
    Cancelled { program: String },
    #[error("cannot read the output of {program}")]
    Read { program: String, source: io::Error },
}

impl CommandError {
    /// The last lines the program wrote, for the renderer to show below the error.
    pub fn tail(&self) -> &[String] {
        match self {
            Self::Failed { tail, .. } => tail,
            _ => &[],
        }
    }
}
