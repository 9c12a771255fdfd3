//! The engine: what brings a cluster to its spec, whatever machines, bootstrappers and screens it is wired to.
//!
//! ```text
//! spec + observed ──plan (pure)──▶ steps ──apply (parallel)──▶ events
//! ```
//!
//! [`store`] keeps what cannot be observed, [`plan`] decides, [`converge`] does, [`node_config`] computes what is inside a node and
//! [`nodes`] brings it there, [`fleet`] is all hosts and drivers. What it needs from others (machines,
//! Kubernetes) are traits of `flotilla-core`. It knows no driver, never prints, never reads the environment.

pub mod converge;
pub mod error;
pub mod fleet;
pub mod node_config;
pub mod nodes;
pub mod plan;
pub mod quorum;
pub mod store;
mod unknown;
mod view;

pub use error::EngineError;
pub use fleet::Fleet;
pub use view::View;
