//! This computer as a host: its network, and machines from plain Linux namespaces. No Docker, no virtual machines, a node
//! boots in half a second.
//!
//! [`LocalHost`] has one network and any drivers. [`BridgeNetwork`] makes bridges and ports on them, and knows no machine;
//! [`NativeDriver`] makes machines, and knows only the port that it is given.
//!
//! Kernel objects have names derived from the cluster's name ([`names::Names`]): control groups, the bridge and its
//! ports, the tables of packet rules. So no state can be lost, and `remove_all` needs only the name.

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

/// Runs blocking code on a thread for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    // It is never aborted, so the only error is a panic.
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// What a check says against something that a node wants.
fn refusal(
    node: &flotilla_spec::NodeName,
    key: &'static str,
    item: Option<String>,
    finding: flotilla_core::Finding,
) -> flotilla_core::Refusal {
    let requirement = flotilla_spec::error::Requirement { node: Some(node.clone()), key, item };
    flotilla_core::Refusal { requirement, finding }
}
