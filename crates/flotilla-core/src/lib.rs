//! The words that all crates share, and the traits between the layers. No I/O, no policy.
//!
//! - [`cluster`]: what a user wants, and what was allocated to it;
//! - [`host`] is where machines run: a [`driver`] makes them, with some [`capabilities`], the [`network`] connects them,
//!   [`guest`] runs programs in one, a [`session`] talks to one of them, a [`record`] is what is known of one;
//!   [`bootstrap`] makes Kubernetes out of them, [`etcd`] is its database, [`bundles`] are what nodes are made from,
//!   [`layout`] says where things are in one, [`kubeconfig`] is where the user's clients find the cluster: each has a fake in the test kit;
//! - [`facts`] is what a host says for the inside of its nodes, [`node`] asks a node's own program;
//! - [`event`] is the one stream of progress, [`explain`] an error's code, exit status and hints;
//! - [`cancel`] ends what runs.

mod authorities;
pub mod bootstrap;
mod bundle_admin;
pub mod bundles;
pub mod cancel;
pub mod capabilities;
pub mod certificate;
mod changed;
pub mod cluster;
pub mod driver;
pub mod etcd;
pub mod event;
pub mod explain;
pub mod facts;
pub mod guest;
pub mod host;
pub mod kubeconfig;
pub mod layout;
mod machine_spec;
pub mod network;
pub mod node;
pub mod record;
pub mod session;

pub use authorities::Authorities;
pub use bootstrap::{
    ApiAccess, BootstrapError, Bootstrapper, Condition, Drain, KubernetesState, Member, NodeHealth,
    Unresponsive,
};
pub use bundle_admin::{
    BuildRequest, BuiltBundle, BundleAdmin, BundleComponent, BundleDetails, BundleList, BundleRemoval,
    BundleSizes, BundleSummary, ComponentOrigin, SourceChoice, UnreadableBundle, VerifiedBundle,
    short_digest,
};
pub use bundles::{
    BundleFacts, BundleHold, Bundles, BundlesError, BundlesErrorKind, Forecast, Origin, Prospect,
};
pub use cancel::Cancel;
pub use capabilities::{Capabilities, Capability, PortKind, requirements};
pub use certificate::{Certificate, Certificates};
pub use changed::Changed;
pub use cluster::{Allocation, Allocations, Cluster, IdRange, Node, Relabelling};
pub use driver::{Driver, DriverError, LogFile, Machine, MachineState, Power};
pub use etcd::{Content, Etcd, MemberStatus, Snapshot, SnapshotError, SnapshotFile, SnapshotOrigin, Source};
pub use event::{Event, Outcome, Reporter, Step, Unit};
pub use explain::{Code, Explain};
pub use facts::{GuestFacts, LinkFacts};
pub use guest::{Cmd, ExecOutput, Guest, GuestError, Reader, Writer};
pub use host::{Finding, Host, Refusal, Severity};
pub use kubeconfig::{Kubeconfig, KubeconfigError, KubeconfigRefusal, KubeconfigRemoval, NameTaken};
pub use layout::BundleLayout;
pub use machine_spec::{MachineId, MachineIsolation, MachineSpec};
pub use network::{Mac, Network, NetworkNode, NetworkPlan, NetworkState, Port, Reach, Subnet};
pub use record::{MachineRecord, Membership, RecordError};
pub use session::{Control, Exit, ProgramDriver, ProgramHandle, Session, Signal, TtySize};
