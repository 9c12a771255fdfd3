//! This computer as a host: its network, and machines from plain Linux namespaces. No Docker, no virtual machines, a node
//! boots in half a second.
//!
//! [`LocalHost`] has one network and any drivers. [`BridgeNetwork`] makes bridges and ports on them, and knows no machine;
//! [`NativeDriver`] makes machines, and knows only the port that it is given.
//!
//! Kernel objects have names derived from the cluster's name ([`names::Names`]): control groups, the bridge and its
//! ports, the tables of packet rules. So no state can be lost, and `remove_all` needs only the name.

use flotilla_core::{DriverError, Finding, Refusal};
use flotilla_spec::NodeName;
use flotilla_spec::error::Requirement;

mod driver;
mod error;
mod examine;
mod failures;
mod host;
mod ids;
mod names;
mod network;

pub use driver::NativeDriver;
pub use host::LocalHost;
pub use network::BridgeNetwork;

use error::NativeError;

/// Runs blocking code on a thread for it.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    // It is never aborted, so the only error is a panic.
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// The same for code of a driver or a network.
async fn blocking<O: Clone + Send + 'static, T: Send + 'static>(
    owner: &O,
    work: impl FnOnce(&O) -> Result<T, NativeError> + Send + 'static,
) -> Result<T, DriverError> {
    let owner = owner.clone();
    Ok(on_thread(move || work(&owner)).await?)
}

/// What a check says against something that a node wants.
fn refusal(node: &NodeName, key: &'static str, item: Option<String>, finding: Finding) -> Refusal {
    Refusal { requirement: Requirement { node: Some(node.clone()), key, item }, finding }
}
