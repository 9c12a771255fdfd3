//! What a host and a node say to each other. Plain data only: it crosses a socket, a pipe or a serial line as JSON.
//!
//! ```text
//! host ── NodeConfig ──▶ flotilla-init configure            at boot PID 1 gets it over its launch channel
//! host ── NodeConfig ──▶ flotilla-init configure --check ──▶ Configured
//! host ────────────────▶ flotilla-init status            ──▶ NodeStatus
//!         systemctl, flotilla-init ── Request ──▶ PID 1  ──▶ Reply
//! ```
//!
//! Both sides may be of different versions: a node keeps the program that it was booted with. So each message to or from the
//! host has the number of its protocol in it. Both sides understand all protocols from [`OLDEST`] to [`PROTOCOL`]. The host
//! speaks the node's ([`NodeConfig::in_protocol`]), and the node answers in the host's; a message of any other protocol is
//! refused, and the node then has to be restarted.
//!
//! | protocol | what is new |
//! | --- | --- |
//! | 1 | |
//! | 2 | [`Link::mtu`], [`NodeConfig::services`], modes and bytes of a [`NodeFile`], services by any name |
//!
//! What is new must be absent, or ignored, in messages of the older protocols. Each keeps its tests in `tests/protocols.rs`.

mod config;
mod control;
mod service;
mod status;

pub use config::{Configured, Content, Link, NodeConfig, NodeFile, PodRoutes, VirtualIp};
pub use control::{Reply, Request, State, Status, Verb};
pub use service::{Need, ServiceSpec, Unit};
pub use status::{Cgroup, NodeStatus, UnitStatus};

/// The version of these messages. It changes when one side could misunderstand the other.
pub const PROTOCOL: u32 = 2;
/// The oldest version that is still understood.
pub const OLDEST: u32 = 1;

/// Whether messages of this protocol are understood.
pub fn understands(protocol: u32) -> bool {
    (OLDEST..=PROTOCOL).contains(&protocol)
}

/// The program that answers in a node.
pub const INIT: &str = "/usr/local/sbin/flotilla-init";
/// Its arguments.
pub const CONFIGURE: &str = "configure";
pub const CHECK: &str = "--check";
pub const STATUS: &str = "status";
/// How each line begins by which it says why it failed. What else is in its place begins otherwise.
pub const FAILURE: &str = "flotilla-init: ";
