//! The engine on fakes: what it plans, in what order it does it, and that it gets there whatever goes wrong.

mod converge;
mod error;
mod faults;
mod plan;
mod store;
mod world;
