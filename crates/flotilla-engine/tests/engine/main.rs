//! The engine on fakes: what it plans, in what order it does it, and that it gets there whatever goes wrong.

#![expect(clippy::unwrap_used, reason = "what tests share is not seen as part of a test")]

mod addresses;
mod bundles;
mod certificates;
mod control_planes;
mod converge;
mod error;
mod faults;
mod fleet;
mod kubeconfig;
mod last_data;
mod lost;
mod mounts;
mod plan;
mod removal;
mod restart;
mod schedule;
mod scope;
mod store;
mod versions;
mod world;
