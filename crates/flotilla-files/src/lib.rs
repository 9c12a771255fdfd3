//! Files of the host that survive crashes: written completely or not at all ([`AtomicFile`]), changed by one process at a time
//! ([`FileLock`]), in directories that others may delete meanwhile ([`make_directory`]).

mod directory;
mod lock;
mod whole;

pub use directory::make_directory;
pub use lock::{FileLock, Holder, LockError};
pub use whole::{AtomicFile, directory_of, is_unfinished, write_whole};
