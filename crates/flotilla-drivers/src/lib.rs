//! Drivers: what makes, finds, powers and removes machines.
//!
//! [`native`] makes them out of Linux namespaces. A driver knows the engine's ports and the kernel; it knows nothing of
//! Kubernetes, of bundles (it is told the folder of one) or of other drivers.

pub mod native;
