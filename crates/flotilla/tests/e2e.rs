//! Real bundles on the real machine: `scripts/test e2e`.
//!
//! They need root and a bundle in the person's own state folder, which is built if it is not there (15 minutes) and
//! otherwise only read. Everything that is changed is a copy made of hard links in a folder of the test's own.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "e2e/archive.rs"]
mod archive;
#[path = "e2e/boot.rs"]
mod boot;
#[path = "e2e/cluster.rs"]
mod cluster;
#[path = "e2e/contents.rs"]
mod contents;
#[path = "e2e/control_planes.rs"]
mod control_planes;
#[path = "e2e/damage.rs"]
mod damage;
#[path = "e2e/disk.rs"]
mod disk;
#[path = "e2e/faults.rs"]
mod faults;
#[path = "e2e/host_state.rs"]
mod host_state;
#[path = "e2e/interruption.rs"]
mod interruption;
#[path = "e2e/lab.rs"]
mod lab;
#[path = "e2e/neighbours.rs"]
mod neighbours;
#[path = "e2e/nodes.rs"]
mod nodes;
