//! A cluster as it is wanted, in the form the engine works with.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::document::{self, Document};
use crate::quantity;
use crate::{
    ClusterName, Cpus, DriverName, ExtraOption, FeatureGates, HostMount, HostPort, Isolation,
    KubeletSettings, KubernetesVersion, Labels, Memory, NetworkSpec, NodeDefaults, NodeName, SpecError,
    Taint,
};

/// What one name (`-p NAME`) stands for.
///
/// Serde writes and reads it as it stands in a cluster's file, with `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Document", into = "Document")]
pub struct ClusterSpec {
    pub name: ClusterName,
    pub kubernetes_version: KubernetesVersion,
    pub network: NetworkSpec,
    pub api_server: ApiServerSpec,
    /// The directory of the user's own certificate authorities, which are copied when the cluster is created; none:
    /// kubeadm makes them.
    pub certificate_authority: Option<PathBuf>,
    /// minikube's `--extra-config`, for every node.
    pub extra_config: Vec<ExtraOption>,
    pub feature_gates: FeatureGates,
    /// Whether control planes take only pods that tolerate it.
    pub taint_control_planes: bool,
    /// What nodes that are added later begin with.
    pub node_defaults: NodeDefaults,
    /// The first control plane in it is the primary one.
    pub nodes: Vec<NodeSpec>,
}

impl ClusterSpec {
    /// The control plane that the others join. A checked spec has one.
    pub fn primary(&self) -> &NodeSpec {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.role == Role::ControlPlane).expect("a checked spec has a control plane")
    }

    pub fn control_planes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().filter(|node| node.role == Role::ControlPlane)
    }

    /// Makes a control plane the primary one.
    pub fn make_primary(&mut self, name: &NodeName) {
        let primary = self.nodes.iter().position(|node| node.role == Role::ControlPlane);
        let at = self.nodes.iter().position(|node| node.name == *name && node.role == Role::ControlPlane);
        if let (Some(primary), Some(at)) = (primary, at) {
            self.nodes[primary..=at].rotate_right(1);
        }
    }

    /// Makes sure that the primary control plane is one that is to run, if any is, other than these.
    pub fn hand_over_primary(&mut self, leaving: &[NodeName]) {
        let can_be = |node: &&NodeSpec| node.power == WantedPower::Running && !leaving.contains(&node.name);
        let heir = self.control_planes().find(can_be).map(|node| node.name.clone());
        if let Some(heir) = heir {
            self.make_primary(&heir);
        }
    }

    /// A node's taints, with the one that all control planes may have.
    pub fn taints_of(&self, node: &NodeSpec) -> Vec<Taint> {
        let mut taints = node.taints.clone();
        let of_control_planes = Taint::of_control_planes();
        if self.taint_control_planes
            && node.role == Role::ControlPlane
            && !taints.contains(&of_control_planes)
        {
            taints.push(of_control_planes);
        }
        taints
    }

    /// The version of a node's kubelet.
    pub fn version_of<'a>(&'a self, node: &'a NodeSpec) -> &'a KubernetesVersion {
        node.kubernetes_version.as_ref().unwrap_or(&self.kubernetes_version)
    }

    /// The spec as a file for others, in which nodes omit what `nodeDefaults` says. After a forced `node stop`
    /// workers may run without a control plane, which a file cannot express: there, all control planes run, because a
    /// part of them may not be a quorum.
    #[must_use]
    pub fn exported(&self) -> Self {
        let mut exported = Self { node_defaults: self.node_defaults.above(&self.nodes), ..self.clone() };
        if self.is_headless() {
            for node in exported.nodes.iter_mut().filter(|node| node.role == Role::ControlPlane) {
                node.power = WantedPower::Running;
            }
        }
        exported
    }

    /// Whether nodes should run, but no control plane.
    pub fn is_headless(&self) -> bool {
        let runs = |node: &NodeSpec| node.power == WantedPower::Running;
        self.nodes.iter().any(runs) && !self.control_planes().any(runs)
    }

    /// The stored form.
    pub fn to_yaml(&self) -> String {
        document::write(self)
    }

    /// Reads the stored form, without [`ClusterSpec::check`].
    pub fn from_yaml(text: &str) -> Result<Self, SpecError> {
        document::read(text)
    }
}

/// One machine of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpec {
    pub name: NodeName,
    pub role: Role,
    /// Who makes its machine; none: [`DriverName::default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverName>,
    /// For its whole life.
    #[serde(default, skip_serializing_if = "Isolation::is_none")]
    pub isolation: Isolation,
    #[serde(default)]
    pub cpus: Cpus,
    #[serde(default)]
    pub memory: Memory,
    /// Bytes. Drivers whose machines have disks of their own make one of this size.
    #[serde(default, with = "quantity::disk", skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Set when it registers.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Of its kubelet; none: the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<KubernetesVersion>,
    /// What it is made from, by version or digest; none: the bundle of its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Over the cluster's; only the kubelet is a node's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_config: Vec<ExtraOption>,
    /// Of its kubelet, over the cluster's.
    #[serde(default, skip_serializing_if = "FeatureGates::is_empty")]
    pub feature_gates: FeatureGates,
    #[serde(default, skip_serializing_if = "KubeletSettings::is_empty")]
    pub kubelet: KubeletSettings,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<HostMount>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<HostPort>,
    // Files of the first versions say `power`.
    #[serde(default, rename = "state", alias = "power")]
    pub power: WantedPower,
}

impl NodeSpec {
    /// Who makes its machine.
    pub fn driver(&self) -> DriverName {
        self.driver.clone().unwrap_or_default()
    }

    /// One without limits, labels or taints, that is to run.
    pub fn plain(name: NodeName, role: Role) -> Self {
        Self {
            name,
            role,
            driver: None,
            isolation: Isolation::None,
            cpus: Cpus::default(),
            memory: Memory::default(),
            disk: None,
            labels: Labels::default(),
            taints: Vec::new(),
            kubernetes_version: None,
            bundle: None,
            extra_config: Vec::new(),
            feature_gates: FeatureGates::default(),
            kubelet: KubeletSettings::default(),
            mounts: Vec::new(),
            ports: Vec::new(),
            power: WantedPower::Running,
        }
    }
}

/// What a machine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    ControlPlane,
    Worker,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ControlPlane => "control plane",
            Self::Worker => "worker",
        })
    }
}

/// Whether a machine is to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WantedPower {
    #[default]
    Running,
    Stopped,
}

/// Where the API server listens, and what it answers to beside the names and addresses it has anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServerSpec {
    /// DNS names; the first label may be `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<IpAddr>,
    /// None: Kubernetes' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl ApiServerSpec {
    pub fn is_empty(&self) -> bool {
        !self.has_names() && self.port.is_none()
    }

    /// Whether its certificate has names or addresses of the user's.
    pub fn has_names(&self) -> bool {
        !self.names.is_empty() || !self.ips.is_empty()
    }
}
