//! Use cases against fakes: what they do, what they refuse, and that each goes on after a kill at any call.

#![expect(clippy::unwrap_used, reason = "what tests share is not seen as part of a test")]

mod bundles;
mod data;
mod delete;
mod etcd;
mod node;
mod pause;
mod reading;
mod recover;
mod start;
mod status;
mod stop;
mod update_context;
mod world;
