//! The use cases: what each command does, for the command line and any other front end.
//!
//! One module for each: a `Request` in, a result out, both plain data; what happens in between is an event. Nothing here
//! prints, asks a user, reads the environment or names a driver. Where a user may refuse, there are two calls:
//! `prepare` gives what would change, mostly with the cluster's lock, and `run` does it. Everything that refuses a cluster
//! is in [`admission`].

pub mod admission;
pub mod apply;
pub mod bring_up;
pub mod bundles;
pub mod certificates;
pub mod change;
pub mod context;
pub mod cp;
pub mod delete;
pub mod doctor;
mod error;
pub mod etcd;
pub mod export;
pub mod file;
pub mod ip;
pub mod kubectl;
pub mod list;
pub mod list_nodes;
pub mod logs;
pub mod lookup;
pub mod node;
pub mod pause;
pub mod recover;
pub mod several;
pub mod ssh;
pub mod start;
pub mod status;
pub mod stop;
pub mod update_context;

pub use context::Context;
pub use error::OpError;
