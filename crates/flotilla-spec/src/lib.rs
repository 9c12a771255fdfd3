//! The spec of a cluster: names, sizes, ranges, checks and files.
//!
//! Pure: it reads no file, no environment and no kernel. What it has to know of the host (cores, memory, routes) is
//! passed in. Every value is checked when it is parsed; [`ClusterSpec::check`] finds conflicts between values or with
//! the host, all together.

pub mod attachment;
pub mod change;
mod check;
pub mod defaults;
mod document;
mod driver;
pub mod error;
pub mod extra;
pub mod file;
pub mod foreign;
mod isolation;
pub mod kubelet;
pub mod model;
pub mod name;
pub mod network;
pub mod quantity;
pub mod registration;
mod text;
pub mod version;

pub use attachment::{HostMount, HostPort, Protocol, owned_by_node, paths_of_node};
pub use change::Change;
pub use check::USER_NAMESPACE_GATE;
pub use defaults::NodeDefaults;
pub use driver::DriverName;
pub use error::{SpecError, SpecErrorKind};
pub use extra::{Component, ExtraOption, FeatureGates};
pub use file::ClusterFile;
pub use isolation::Isolation;
pub use kubelet::KubeletSettings;
pub use model::{ApiServerSpec, ClusterSpec, NodeSpec, Role, WantedPower};
pub use name::{ClusterName, NodeName};
pub use network::{Cni, NetworkSpec, RangeUse};
pub use quantity::{Cpus, HostSize, Memory};
pub use registration::{Labels, Taint};
pub use text::nearest;
pub use version::KubernetesVersion;
