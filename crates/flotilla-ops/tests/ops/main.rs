//! Use cases against fakes: what they do, what they refuse, and that each goes on after a kill at any call.

mod stop;
mod world;
