//! Links, addresses, routes and packet rules on the real kernel, each test in a network namespace of its own.
//!
//! Needs root; without it, or without nft, says so and passes. Nothing of the host's own network is changed.

#![expect(clippy::unwrap_used, reason = "the lint does not see that helpers of tests are tests")]

mod support;
mod ways;

mod firewalls;
mod links;
mod lookup;
mod packets;
mod rules;
mod sources;
mod taps;
mod world;
