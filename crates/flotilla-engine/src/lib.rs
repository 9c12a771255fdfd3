//! The engine: what brings a cluster to its spec, whatever machines, bootstrappers and screens it is wired to.
//!
//! ```text
//! spec + observed ──plan (pure)──▶ steps ──apply (parallel)──▶ events
//! ```
//!
//! [`port`] has what it needs from others (machines, Kubernetes), [`store`] keeps what cannot be observed,
//! [`plan`] decides, [`converge`] does. It knows no driver, never prints, never reads the environment.

pub mod cluster;
pub mod converge;
pub mod error;
pub mod event;
pub mod explain;
pub mod plan;
pub mod port;
pub mod quorum;
pub mod store;

pub use cluster::{Cluster, HandedOut, Node};
pub use error::EngineError;
pub use event::{Event, Reporter, Unit};
pub use explain::{Code, Explain};
