//! What tests share.
//!
//! - [`Home`] runs the real program where it can harm nothing: in a directory of its own, with an environment of its
//!   own, behind pipes or on a terminal;
//! - [`bundles`] makes bundles up, so that nothing has to be built before it can be listed, checked or removed;
//! - [`image`] makes the image that pods run;
//! - [`fake`] has the engine's ports in memory, [`contract`] what every driver must do, in memory or not;
//! - [`harness`] runs cases in a binary that has its own `main`.
//!
//! Everything here panics when it cannot do its work: that is a failed test.

pub mod bundles;
pub mod contract;
mod directory;
pub mod fake;
mod filter;
pub mod harness;
mod home;
pub mod image;
mod network;
mod program;
mod ran;
mod running;
mod terminal;

use sha2::{Digest, Sha256};

pub use directory::directory;
pub use harness::{does_not_apply, skip};
pub use home::Home;
pub use network::{LAN, own_network};
pub use program::write_program;
pub use ran::{Ran, Seen};
pub use running::Running;

/// A snapshot of an etcd that holds nothing but the authority of its cluster, or not even that.
pub fn etcd_snapshot(authority: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    // bbolt's mark and version.
    bytes[16..24].copy_from_slice(&[0xed, 0xda, 0x0c, 0xed, 2, 0, 0, 0]);
    if let Some(authority) = authority {
        // The key, and as it is in etcd's message behind it: its revisions, how often it was written, its value.
        let key = b"/registry/configmaps/kube-system/kube-root-ca.crt";
        let length = u8::try_from(authority.len()).expect("it is a short one");
        assert!(length < 0x80, "it is a short one");
        let message = [&key[..], &[0x10, 2, 0x18, 2, 0x20, 1, 0x2a, length], authority.as_bytes()].concat();
        bytes[4096..4096 + message.len()].copy_from_slice(&message);
    }
    with_checksum(bytes)
}

/// A database with the checksum that makes a snapshot of it.
pub fn with_checksum(mut database: Vec<u8>) -> Vec<u8> {
    let checksum = Sha256::digest(&database);
    database.extend_from_slice(&checksum);
    database
}

/// Whether the tests may do what only root may. One that may not says so and ends.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
