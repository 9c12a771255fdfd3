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
//! host has [`PROTOCOL`] in it. A message of another protocol is refused; the node then has to be restarted.

mod config;
mod control;
mod status;

pub use config::{Configured, Link, NodeConfig, NodeFile, PodRoutes, VirtualIp};
pub use control::{Reply, Request, State, Status, Unit, Verb};
pub use status::{Cgroup, NodeStatus, UnitStatus};

/// The version of these messages. It changes when one side could misunderstand the other.
pub const PROTOCOL: u32 = 2;

/// The program that answers in a node.
pub const INIT: &str = "/usr/local/sbin/flotilla-init";
/// Its arguments.
pub const CONFIGURE: &str = "configure";
pub const CHECK: &str = "--check";
pub const STATUS: &str = "status";
/// How each line begins by which it says why it failed. What else is in its place begins otherwise.
pub const FAILURE: &str = "flotilla-init: ";
