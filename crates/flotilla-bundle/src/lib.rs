//! Bundles: everything a node needs for one Kubernetes version, as one verified directory.
//!
//! ```text
//! bundle/lock.toml ─▶ components ─▶ source ─▶ parts ─┬▶ rootfs/
//!                                                     └▶ images ─▶ store/ ─▶ manifest.json
//! ```
//!
//! [`BundleStore`] is the way in: it finds, makes, checks, exports, imports and removes bundles. This crate knows no
//! driver and no cluster: who uses a bundle is asked by whoever removes one.

mod archive;
pub mod build;
mod bundle_store;
mod clean;
mod durable;
mod elf;
pub mod error;
#[cfg(test)]
mod fixture;
pub mod hash;
mod image;
pub mod inventory;
pub mod lock;
mod make;
pub mod manifest;
mod part;
pub mod platform;
mod port;
pub mod recipe;
mod rootfs;
pub mod source;
mod store;
mod tree;
mod unpack;

pub use bundle_store::{Bundle, BundleStore, Hold, Listing, Removal};
pub use error::BundleError;
pub use image::architecture;
pub use make::Made;
pub use manifest::Manifest;
