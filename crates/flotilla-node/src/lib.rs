//! Programs inside a node: PID 1, its services, `systemctl` and `sudo`.
//!
//! ```text
//! PID 1  supervise     starts services, keeps their logs small, reaps orphans, goes down in order
//!   ├─ containerd      ── shims ── pods
//!   ├─ kubelet         once kubeadm has written its files
//!   ├─ keepalived      once there is a configuration: this node may hold the virtual IP
//!   └─ …               whatever else the host has configured
//!
//! systemctl            asks PID 1 over /run/flotilla/init.sock, a JSON line each way
//! flotilla-init        status: how the node is; configure: files, link and routes, as the host wants them
//! ```
//!
//! Everything happens in one thread around one poll(2): PID 1 must reap children that it did not start, and a second
//! thread that waits for its own child would race with that. What the namespaces and the root are made of is the
//! business of who starts us. Nothing here touches a file outside the [`Config::root`] apart from `/proc`.

mod ask;
mod backoff;
mod boot;
mod config;
mod configure;
mod control;
mod error;
mod journal;
mod launch;
mod logfile;
mod output;
mod processes;
mod program;
mod root;
mod service;
mod services;
mod shutdown;
mod signals;
pub mod stage;
mod status;
mod sudo;
mod supervisor;
mod systemctl;
mod watch;

pub use config::{Config, Graces};
pub use error::NodeError;
pub use program::flotilla_init_in;
pub use supervisor::supervise;
pub use systemctl::{systemctl, systemctl_in};
