//! What drivers can do and nodes need, as plain data: nobody has to ask for a driver's name.

use std::fmt;

use flotilla_spec::NodeSpec;
use flotilla_spec::error::Requirement;
use serde::{Deserialize, Serialize};

/// What the machines of a driver can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a driver can do or not")]
pub struct Capabilities {
    /// Directories of the host can be mounted into a machine.
    pub host_mounts: bool,
    /// A machine can have a user namespace.
    pub user_namespaces: bool,
    /// A machine has a disk of its own, of the size that its node asks for. Others share the host's and ignore the size.
    pub disk_size: bool,
    /// The logs of a machine that is off can be read.
    pub offline_logs: bool,
    /// The state of a machine can be saved and restored.
    pub snapshots: bool,
    /// Kubernetes in a machine can be frozen.
    pub pause: bool,
    /// A machine runs a kernel of its own.
    pub own_kernel: bool,
    /// Failures of a machine can be caused on purpose.
    pub faults: bool,
    /// How a machine is plugged into the host's network.
    pub port_kind: PortKind,
}

/// What a machine has at its end of the host's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// A pair of links, one end of which is moved into the machine.
    Veth,
    /// A link of the host whose packets a process reads and writes.
    Tap,
}

/// Something that not every driver can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    HostMounts,
    UserNamespaces,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HostMounts => "mount directories of the host",
            Self::UserNamespaces => "give nodes user namespaces (`isolation: user`)",
        })
    }
}

impl Capabilities {
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::HostMounts => self.host_mounts,
            Capability::UserNamespaces => self.user_namespaces,
        }
    }
}

/// Everything that a node needs of its driver, each with the field that asks for it.
pub fn requirements(node: &NodeSpec) -> Vec<(Capability, Requirement)> {
    let of = |key, item| Requirement { node: Some(node.name.clone()), key, item };
    let mounts = node.mounts.iter().map(|mount| of("mounts", Some(mount.to_string())));
    let isolation = (!node.isolation.is_none()).then(|| of("isolation", None));
    mounts
        .map(|requirement| (Capability::HostMounts, requirement))
        .chain(isolation.map(|requirement| (Capability::UserNamespaces, requirement)))
        .collect()
}
