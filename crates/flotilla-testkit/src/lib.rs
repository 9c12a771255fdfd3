//! What tests share.
//!
//! - [`Home`] runs the real program where it can harm nothing: in a folder of its own, with an environment of its
//!   own, behind pipes or on a terminal;
//! - [`bundles`] makes bundles up, so that nothing has to be built before it can be listed, checked or removed;
//! - [`image`] makes the image that pods run;
//! - [`fake`] has the engine's ports in memory, [`contract`] what every driver must do, in memory or not;
//! - [`harness`] runs cases in a binary that has its own `main`.
//!
//! Everything here panics when it cannot do its work: that is a failed test.

pub mod bundles;
pub mod contract;
pub mod fake;
mod filter;
pub mod harness;
mod home;
pub mod image;
mod ran;
mod running;
mod terminal;

pub use harness::skip;
pub use home::Home;
pub use ran::{Ran, Seen};
pub use running::Running;

/// Whether the tests may do what only root may. One that may not says so and ends.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
