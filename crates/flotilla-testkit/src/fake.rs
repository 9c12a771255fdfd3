//! The engine's ports, in memory: what is done to them is remembered, and any call can be made to fail.
//!
//! They share their [`Calls`], so that one log has everything in order and one fault can hit any of them. What must
//! outlive a machine's power is a file in the machine, as it is in real ones; what must not is below `/run`.

mod bootstrapper;
mod bundle_admin;
mod bundles;
mod calls;
mod computer;
mod driver;
mod etcd;
mod host;
mod kubeconfig;
mod machine;
mod network;
mod node;
mod program;

use flotilla_core::{Allocations, Cluster};
use flotilla_spec::ClusterSpec;

pub use bootstrapper::FakeBootstrapper;
pub use bundles::FakeBundles;
pub use calls::{Calls, Fault, When, until_killed, until_killed_async};
pub use computer::FakeComputer;
pub use driver::FakeDriver;
pub use etcd::{member_status, snapshot};
pub use host::FakeHost;
pub use kubeconfig::FakeKubeconfig;
pub use machine::{Answer, FakeMachine};
pub use network::FakeNetwork;
pub use program::{Act, Opened, Programs};

/// A cluster `demo` of one node `demo`, in a network of the caller's choosing.
pub fn cluster(subnet: &str) -> Cluster {
    cluster_of(
        "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane}
",
        subnet,
    )
}

/// The cluster of a file, with addresses handed out in the order of its nodes.
pub fn cluster_of(yaml: &str, subnet: &str) -> Cluster {
    let spec = ClusterSpec::from_yaml(yaml).expect("the test's file is sound");
    let subnet = subnet.parse().expect("the test's subnet is one");
    let pods = "10.244.0.0/16".parse().expect("it is a range");
    let mut cluster = Cluster::new(spec, Allocations::new(subnet, pods, "sha256:0".to_owned()));
    cluster.allocate().expect("there is room");
    cluster
}

/// A cluster `demo` with a node for each role: `demo`, `demo-m02`, `demo-m03` …
pub fn cluster_of_roles(roles: &[&str]) -> Cluster {
    let head = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nkubernetesVersion: v1.37.1\nnodes:\n";
    let names = std::iter::once("demo".to_owned()).chain((2..).map(|number| format!("demo-m{number:02}")));
    let nodes = roles.iter().zip(names).map(|(role, name)| format!("- {{name: {name}, role: {role}}}\n"));
    cluster_of(&nodes.fold(head.to_owned(), |yaml, node| yaml + &node), "10.213.0.0/24")
}
