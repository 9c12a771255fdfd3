//! Errors of PID 1.

use std::io;
use std::path::PathBuf;

/// A node could not be started, or its PID 1 cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("only PID 1 can run a node")]
    NotInit,
    #[error("cannot create the directory {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot open the log {}", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("cannot watch for signals")]
    Signals { source: io::Error },
    #[error("cannot watch the directory {}", path.display())]
    Watch { path: PathBuf, source: io::Error },
    #[error("cannot listen on {}", path.display())]
    Listen { path: PathBuf, source: io::Error },
    #[error("cannot start {} to load {}", program.display(), rules.display())]
    StartNft { program: PathBuf, rules: PathBuf, source: io::Error },
    #[error("nft does not accept {} ({status}): {said}", rules.display())]
    NftRules { rules: PathBuf, status: String, said: String },
    #[error("cannot wait for events")]
    Wait { source: io::Error },
}
