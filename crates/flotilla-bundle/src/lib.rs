//! Bundles: everything a node needs for one Kubernetes version, as one verified folder.

pub mod hash;
pub mod lock;
pub mod recipe;
