//! Files of the host that survive crashes: written whole or not at all ([`write_whole`]), changed by one process at a time
//! ([`FileLock`]).

mod lock;
mod whole;

pub use lock::{FileLock, Holder, LockError};
pub use whole::write_whole;
