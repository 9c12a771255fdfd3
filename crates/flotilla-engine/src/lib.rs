//! The engine: what every command shares, whatever machines, sources and screens it is wired to.
//!
//! So far it holds two ports: [`event`], the one stream that progress bars, `-o json` and later the dashboard
//! read, and [`explain`], what the screen needs to know about an error. It knows no driver, never prints, never
//! reads the environment.

pub mod event;
pub mod explain;

pub use event::{Event, Reporter, Unit};
pub use explain::{Code, Explain};
