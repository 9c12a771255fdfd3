//! Errors of a spec.

use std::fmt;
use std::path::PathBuf;

use ipnet::{Ipv4Net, Ipv6Net};

use crate::check::{NONSENSE, USER_NAMESPACE_GATE};
use crate::driver::platform;
use crate::extra::KUBEADM_KEYS;
use crate::foreign::Tool;
use crate::kubelet::MINOR;
use crate::name::NameProblem;
use crate::network::NodeLimit;
use crate::quantity::{GIB, gib, write_size};
use crate::{
    ClusterName, Component, ExtraOption, HostMount, HostPort, KubernetesVersion, NodeName, RangeUse, Role,
};

/// One error, worded so that the user finds it in the flags or in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("{what} name {name:?} {problem}")]
    Name { what: &'static str, name: String, problem: NameProblem, better: Option<String> },

    #[error("{given:?} is not a size")]
    Size { given: String },
    #[error("the size {given:?} is too large")]
    SizeTooLarge { given: String },
    #[error("{given:?} is not a number of CPUs")]
    Cpus { given: String },

    #[error("{given:?} is not a Kubernetes version")]
    Version { given: String },

    #[error("{given:?} is not an address range")]
    Range { given: String },
    #[error("{given} is an address with a prefix, not a range")]
    HostBits { given: Ipv4Net, range: Ipv4Net },
    #[error("{given} is an IPv6 range, and IPv6 is not supported yet")]
    Ipv6 { given: Ipv6Net },
    #[error("the {usage} {range} overlaps the {other_usage} {other}")]
    Overlap { usage: RangeUse, range: Ipv4Net, other_usage: RangeUse, other: Ipv4Net },
    #[error("the {usage} {range} must have a prefix from /{shortest} to /{longest}")]
    RangeSize { usage: RangeUse, range: Ipv4Net, shortest: u8, longest: u8 },
    #[error("the {usage} {range} has addresses that nodes cannot use: {meaning}")]
    UnusableRange { usage: RangeUse, range: Ipv4Net, meaning: &'static str },
    #[error("a pod range of /{prefix} per node is too small: at most /{longest} is allowed")]
    NodePodPrefix { prefix: u8, longest: u8 },
    #[error("a pod subnet of /{subnet_prefix} is too small for a node's /{prefix}")]
    PodSubnetTooSmall { subnet_prefix: u8, prefix: u8 },
    #[error("the {usage} {range} overlaps {by}")]
    Taken { usage: RangeUse, range: Ipv4Net, by: String },
    #[error("this host has no free range left for the {what}")]
    NoFreeRange { what: String },
    #[error("{given:?} is not an address")]
    BadAddress { given: String },
    #[error("unknown condition {given:?}: expected all, none, {known}")]
    UnknownCondition { given: String, known: String },
    #[error("unknown template field {given:?}: expected one of {known}")]
    UnknownField { given: String, known: String },
    #[error("{given:?} is not a DNS domain")]
    DnsDomain { given: String },
    #[error("{given:?} is not a valid name for the API server's certificate")]
    ApiServerName { given: String },
    #[error("the API server cannot have port {port}: in every node it is for {owner}")]
    ApiServerPort { port: u16, owner: &'static str },

    #[error("option {given:?} has no `=` and value")]
    OptionWithoutValue { given: String },
    #[error("option {given:?} has no component or no key before `=`")]
    OptionWithoutKey { given: String },
    #[error("unknown component {given:?}: expected one of {}", Component::ALL.map(Component::name).join(", "))]
    UnknownComponent { given: String, nearest: Option<Component> },
    #[error("kubeadm option {key:?} cannot be set")]
    KubeadmOption { key: String },
    #[error("{option} cannot be set: {why}")]
    ReservedOption {
        /// The node that sets it; none if the cluster does.
        node: Option<NodeName>,
        option: ExtraOption,
        why: &'static str,
    },
    #[error("{given} cannot be set for the kubelet of node {node}: {why}")]
    ReservedField { node: NodeName, given: String, why: &'static str },
    #[error("two pod subnets: {option} and {subnet}")]
    PodSubnetTwice { option: ExtraOption, subnet: Ipv4Net },
    #[error("{given:?} is not a feature gate")]
    FeatureGate { given: String },

    #[error("{given:?} is not a label")]
    Label { given: String },
    #[error("{given:?} is not a taint")]
    Taint { given: String },
    #[error("{given:?} is not a mount")]
    Mount { given: String },
    #[error("{given:?} is not a port to publish")]
    Port { given: String },
    #[error("{given:?} is not a field of the kubelet's configuration")]
    KubeletSetting { given: String },
    #[error("{given:?} is not a field of the kubelet's configuration")]
    KubeletField { node: NodeName, given: String, nearest: Option<String> },
    #[error("container runtime {given:?} is not supported")]
    ContainerRuntime { given: String },
    #[error("this needs the Docker driver, which is not implemented yet: nodes have containerd")]
    ComesWithDocker,
    /// In minikube's words, which scripts look for.
    #[error("The driver '{given}' is not supported on {}", platform())]
    Driver { given: String },
    #[error(
        "ISO images need a driver for virtual machines, which is not implemented yet: nodes are created from bundles"
    )]
    IsoImage,
    #[error("unknown pod network {given:?}: expected flotilla, none, flannel or the path of a manifest")]
    Cni { given: String },
    #[error("node name {name} is used by cluster {cluster}")]
    NodeElsewhere { name: NodeName, cluster: ClusterName },
    #[error("host port {port} is in use: {by}")]
    PortTaken { node: NodeName, port: HostPort, by: String },
    #[error("the subnet has no address left for another node")]
    NoAddressLeft { node: Option<NodeName> },
    #[error("{count} nodes are too many: {limit} allows {most}")]
    TooManyNodes { count: usize, most: usize, limit: NodeLimit },
    /// A requirement that a driver or the bundles cannot meet.
    #[error("{why}")]
    Unmet {
        requirement: Requirement,
        why: String,
        /// The hint; empty if there is none.
        cure: String,
        /// The name and the exit status of the original error.
        code: (&'static str, u8),
    },
    #[error("the cluster needs at least one node")]
    NoNodes,

    #[error("the cluster already has a node {name}")]
    NodeThere { name: NodeName },
    #[error("two nodes are named {name}")]
    DuplicateNode { name: NodeName },
    #[error("the cluster has no control plane")]
    NoControlPlane,
    #[error("node {node} has {wanted} CPUs, more than the host's {host}")]
    Cores { node: NodeName, wanted: u32, host: u32 },
    #[error("node {node} has {} of memory, more than the host's {}", gib(*wanted), gib(*host))]
    MemoryOverHost { node: NodeName, wanted: u64, host: u64 },
    #[error("the running nodes together have {} of memory, more than the host's {}", gib(*wanted), gib(*host))]
    MemoryTogether { wanted: u64, host: u64 },
    #[error("node {node} has {} of memory, but a {role} needs {}", gib(*wanted), gib(*least))]
    MemoryTooSmall { node: NodeName, role: Role, wanted: u64, least: u64 },
    #[error("node {node} has a disk of {}, but needs {}", gib(*wanted), gib(*least))]
    DiskTooSmall { node: NodeName, wanted: u64, least: u64 },

    #[error("kubelet {kubelet} of node {node} is too {} for Kubernetes {cluster}", if .kubelet > .cluster { "new" } else { "old" })]
    KubeletSkew { node: NodeName, kubelet: KubernetesVersion, cluster: KubernetesVersion },
    #[error("control plane {node} cannot have version {wanted} in a cluster of version {cluster}")]
    ControlPlaneVersion { node: NodeName, wanted: KubernetesVersion, cluster: KubernetesVersion },
    #[error("node {node}: set `kubernetesVersion` or `bundle`, not both")]
    VersionAndBundle { node: NodeName },
    #[error("{option} cannot be set for node {node}: only kubelet options can be set for one node")]
    OptionOfCluster { node: NodeName, option: ExtraOption },
    /// Without the node: nodes of the same line have the same error.
    #[error("mount {mount} conflicts with {owned}, which the node owns")]
    MountOver { node: NodeName, mount: HostMount, owned: &'static str },
    #[error("node {node} has two mounts on {}", .target.display())]
    MountTwice { node: NodeName, target: PathBuf },
    #[error("node {node} has `isolation: user`, which needs the feature gate {USER_NAMESPACE_GATE}")]
    IsolationGate { node: NodeName },
    #[error("node {node} has `isolation: user`, in which Cilium cannot run: it needs eBPF")]
    IsolationNetwork { node: NodeName },
    #[error("port {port} of node {node} conflicts with {other_port} of node {other}")]
    PortTwice { node: NodeName, port: HostPort, other: NodeName, other_port: HostPort },

    #[error("unknown apiVersion {given:?}: expected {known:?}")]
    ApiVersion { given: String, known: &'static str },
    #[error("unknown kind {given:?}: expected {known:?}")]
    Kind { given: String, known: &'static str },
    #[error("{file} is a config file of {tool}, not a cluster file of flotilla")]
    ForeignFile { file: String, tool: Tool, translated: String },
    #[error("line {line}, column {column} (`{text}`): {problem}")]
    Malformed { line: u64, column: u64, text: String, problem: String },

    #[error("{problem}")]
    Syntax { problem: String },
    #[error("key {key:?} is missing")]
    MissingKey { key: &'static str },
    #[error("unknown key {given:?}: expected one of {known}")]
    UnknownKey { given: String, known: String, nearest: Option<String> },
    #[error("unknown {what} {given:?}: expected one of {known}")]
    UnknownWord { what: &'static str, given: String, known: String, nearest: Option<String> },
    #[error("duplicate key {given:?}")]
    DuplicateKey { given: String },
    #[error("expected {wanted}")]
    Shape { wanted: &'static str },
    #[error("{given:?} is not a whole number from 1 to {most}")]
    Number { given: String, most: u32 },
    #[error("`name` and `count` cannot be combined")]
    NameAndCount,
    #[error(
        "control plane {node} cannot be stopped while other nodes run: at least one control plane must run"
    )]
    StoppedControlPlane { node: NodeName },
    #[error("{count} control planes tolerate no more failures than {}: use an odd number", count - 1)]
    EvenControlPlanes { count: usize },
    /// Place and hint are part of the message, because several are shown in one list.
    #[error("{place}: {error}{}", .error.hint_in_file().map(|hint| format!("; {hint}")).unwrap_or_default())]
    At { place: Place, error: Box<SpecError> },
}

/// A setting that a driver or a bundle has to support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// None if it is a setting of the cluster.
    pub node: Option<NodeName>,
    /// Its key in a file.
    pub key: &'static str,
    /// The entry, if the key has a list.
    pub item: Option<String>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: String,
    line: u64,
    column: u64,
    /// The line itself.
    text: String,
}

impl Place {
    /// Characters of a line that are shown.
    const SHOWN: usize = 80;

    pub(crate) fn new(file: &str, text: &str, line: u64, column: u64) -> Self {
        Self { file: file.to_owned(), line, column, text: Self::line_of(text, line) }
    }

    /// Its line and column.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.line, self.column)
    }

    /// A line, without control characters and not too long.
    pub(crate) fn line_of(text: &str, line: u64) -> String {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let line = text.lines().nth(index).unwrap_or_default().trim();
        line.chars().filter(|char| !char.is_control()).take(Self::SHOWN).collect()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{} (`{}`)", self.file, self.line, self.column, self.text)
    }
}

/// Determines the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecErrorKind {
    /// An invalid value or an invalid combination.
    Usage,
    Memory,
    Cores,
    Disk,
    /// An error that only a file can have.
    Config,
    /// The name and exit status of another error.
    Named(&'static str, u8),
}

impl SpecError {
    pub(crate) fn at(self, place: Place) -> Self {
        Self::At { place, error: Box::new(self) }
    }

    pub fn kind(&self) -> SpecErrorKind {
        match self {
            Self::Cores { .. } => SpecErrorKind::Cores,
            Self::MemoryOverHost { .. } | Self::MemoryTogether { .. } | Self::MemoryTooSmall { .. } => {
                SpecErrorKind::Memory
            }
            Self::DiskTooSmall { .. } => SpecErrorKind::Disk,
            // As if a program used the port, which the driver reports.
            Self::PortTaken { .. } => SpecErrorKind::Named("IF_PORT_IN_USE", 71),
            Self::Unmet { code: (name, exit_status), .. } => SpecErrorKind::Named(name, *exit_status),
            Self::Driver { .. } => SpecErrorKind::Named("DRV_UNSUPPORTED", 56),
            Self::DuplicateNode { .. }
            | Self::NoControlPlane
            | Self::ApiVersion { .. }
            | Self::Kind { .. }
            | Self::ForeignFile { .. }
            | Self::Malformed { .. }
            | Self::Syntax { .. }
            | Self::MissingKey { .. }
            | Self::UnknownKey { .. }
            | Self::UnknownWord { .. }
            | Self::Shape { .. }
            | Self::DuplicateKey { .. }
            | Self::PodSubnetTwice { .. }
            | Self::Number { .. }
            | Self::NameAndCount
            | Self::StoppedControlPlane { .. } => SpecErrorKind::Config,
            // A usage error in a file is a configuration error; a host that is too small is not.
            Self::At { error, .. } => match error.kind() {
                SpecErrorKind::Usage => SpecErrorKind::Config,
                kind => kind,
            },
            _ => SpecErrorKind::Usage,
        }
    }

    /// What the user can write instead.
    pub fn hint(&self) -> Option<String> {
        self.hint_about_values().or_else(|| Some(self.hint_about_kind()?.to_owned()))
    }

    /// The same in a file, where the settings of a node are keys.
    fn hint_in_file(&self) -> Option<String> {
        let hint = self.hint()?;
        let flag = match self {
            Self::Cores { .. } => ("--cpus ", "cpus: "),
            Self::MemoryOverHost { .. } | Self::MemoryTooSmall { .. } => ("--memory ", "memory: "),
            Self::DiskTooSmall { .. } => ("--disk-size ", "disk: "),
            _ => return Some(hint),
        };
        Some(hint.replace(flag.0, flag.1))
    }

    /// A hint that repeats what was given, or names what may be given.
    fn hint_about_values(&self) -> Option<String> {
        Some(match self {
            Self::Name { better: Some(better), .. } => format!("try `{better}`"),
            Self::UnknownKey { nearest: Some(nearest), .. }
            | Self::KubeletField { nearest: Some(nearest), .. }
            | Self::UnknownWord { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::ForeignFile { tool, translated, .. } => {
                format!(
                    "save this as cluster.yaml, then type `flotilla start -f cluster.yaml` (see docs/start/from-{tool}.md):\n\n{}",
                    translated.trim_end()
                )
            }
            Self::Unmet { cure, .. } => return Some(cure.clone()).filter(|cure| !cure.is_empty()),
            Self::UnknownComponent { nearest: Some(nearest), .. } => format!("try `{nearest}`"),
            Self::KubeletField { nearest: None, .. } => format!(
                "fields are known up to Kubernetes v1.{MINOR}; a newer kubelet, or one from your own `bundle`, may have others"
            ),
            Self::Cni { given } if ["calico", "cilium", "kindnet"].contains(&given.as_str()) => {
                format!("give the path of {given}'s manifest: `--cni ./{given}.yaml`")
            }
            Self::HostBits { range, .. } => format!("write `{range}`"),
            Self::KubeadmOption { .. } => {
                let [one, other] = KUBEADM_KEYS;
                format!("of kubeadm's options only `{one}` and `{other}` can be set")
            }
            Self::Cores { host, .. } => format!("use --cpus max, or at most {host}"),
            Self::MemoryOverHost { host, .. } => {
                let most = write_size(host.saturating_mul(NONSENSE) / GIB * GIB);
                format!("use --memory max, or at most {NONSENSE} times the host's memory: {most}")
            }
            Self::KubeletSkew { cluster, .. } => {
                let minors = cluster.takes_kubelets();
                format!("choose a version from v1.{} to v1.{}", minors.start(), minors.end())
            }
            Self::IsolationGate { .. } => format!("leave out {USER_NAMESPACE_GATE}=false"),
            Self::MemoryTooSmall { least, .. } => format!("use --memory {} or more", write_size(*least)),
            Self::DiskTooSmall { least, .. } => format!("use --disk-size {} or more", write_size(*least)),
            _ => return None,
        })
    }

    /// A hint that is the same for every error of its kind.
    fn hint_about_kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::NameAndCount => "leave out `name`: flotilla names nodes with `count`",
            Self::StoppedControlPlane { .. } => "stop the other nodes as well, or keep it running",
            Self::Size { .. } => {
                "write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)"
            }
            Self::Cpus { .. } => "write a whole number, `max` or `no-limit`",
            Self::Version { .. } => "write a full version, for example `v1.37.1`",
            Self::Range { .. } => "write an address and a prefix, for example `10.0.0.0/24`",
            Self::NoFreeRange { .. } => "choose one with --subnet or --pod-subnet",
            Self::Label { .. } => "write `key=value`, separated by commas",
            Self::Taint { .. } => "write `key=value:NoSchedule`, PreferNoSchedule or NoExecute",
            Self::NodeElsewhere { .. } => "give the node another name",
            Self::NodeThere { .. } => "give the new node another name, or none for a default",
            Self::MountOver { mount, .. } if mount.target.starts_with("/etc/kubernetes/pki") => {
                "to use your own certificate authority, leave out the mount and set --certificate-authority DIR, or \
                 `certificateAuthority` in a file"
            }
            Self::MountOver { .. } => "mount it on another directory, for example `/mnt/data`",
            Self::PortTaken { .. } | Self::PortTwice { .. } => "publish another port of the host",
            Self::NoAddressLeft { .. } => {
                "create a cluster with a larger --subnet, a larger --pod-subnet or smaller ranges per node \
                 (--node-pod-prefix)"
            }
            Self::TooManyNodes { limit, .. } => limit.cure(),
            Self::ContainerRuntime { .. } => "leave it out: every node has containerd",
            Self::ComesWithDocker => {
                "build images on the host and import them in each node that runs them: \
                 `docker save my-app:1 | flotilla ssh -- ctr -n k8s.io images import -`"
            }
            Self::Driver { .. } => "leave it out: `native` creates nodes from Linux namespaces",
            Self::Mount { .. } => {
                "write `/path/on/the/host:/path/in/the/node`, with `:ro` at the end for read-only"
            }
            Self::Port { .. } => {
                "write `8080:30080`, `0.0.0.0:8080:30080` or `5353:30053/udp`: the host's port first"
            }
            Self::KubeletSetting { .. } => {
                "write fields of a KubeletConfiguration, for example `maxPods: 50`"
            }
            Self::Taken { usage: RangeUse::Services, .. } => {
                "choose another service range with --service-cluster-ip-range"
            }
            Self::Taken { .. } => "choose another range, or leave it out for a free one",
            Self::OptionWithoutValue { .. } | Self::OptionWithoutKey { .. } => {
                "write `component.key=value`, for example `kubelet.max-pods=50`"
            }
            Self::ReservedOption { .. } | Self::ReservedField { .. } => "leave it out",
            Self::PodSubnetTwice { .. } => "leave out the option and keep `podSubnet`",
            Self::FeatureGate { .. } => "write `Name=true` or `Name=false`, separated by commas",
            Self::ControlPlaneVersion { .. } => "change the version of the cluster, or only of workers",
            Self::VersionAndBundle { .. } => "leave out the version: a bundle has one",
            Self::OptionOfCluster { .. } => {
                "set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`"
            }
            Self::IsolationNetwork { .. } => "choose another pod network, or `isolation: none`",
            _ => return None,
        })
    }
}
