//! What can be wrong with a wanted cluster.

use std::fmt;
use std::path::PathBuf;

use ipnet::{Ipv4Net, Ipv6Net};

use crate::check::NONSENSE;
use crate::extra::KUBEADM_KEYS;
use crate::kubelet::MINOR;
use crate::name::NameProblem;
use crate::network::NodeLimit;
use crate::quantity::MIB;
use crate::{ClusterName, Component, ExtraOption, HostPort, KubernetesVersion, NodeName, RangeUse, Role};

/// One thing that is wrong, named so that a person finds it in the flags or in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("the {what} name {name:?} {problem}")]
    Name { what: &'static str, name: String, problem: NameProblem, better: Option<String> },

    #[error("{given:?} is not a size")]
    Size { given: String },
    #[error("the size {given:?} is too large")]
    SizeTooLarge { given: String },
    #[error("{given:?} is not a number of CPUs")]
    Cpus { given: String },

    #[error("{given:?} is not a version of Kubernetes")]
    Version { given: String },

    #[error("{given:?} is not a range of addresses")]
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
    #[error("a node's pods need more addresses than a /{prefix} has: /{longest} at least")]
    NodePodPrefix { prefix: u8, longest: u8 },
    #[error("a pod subnet of /{subnet_prefix} has no room for one node's /{prefix}")]
    PodSubnetTooSmall { subnet_prefix: u8, prefix: u8 },
    #[error("the {usage} {range} overlaps {by}")]
    Taken { usage: RangeUse, range: Ipv4Net, by: String },
    #[error("this host has no free range left for the {what}")]
    NoFreeRange { what: String },
    #[error("{given:?} is not an address")]
    BadAddress { given: String },
    #[error("{given:?} is nothing that can be waited for: these are all, none, {known}")]
    UnknownCondition { given: String, known: String },
    #[error("{given:?} is not a field of this template: these are {known}")]
    UnknownField { given: String, known: String },
    #[error("{given:?} is not a DNS domain")]
    DnsDomain { given: String },
    #[error("{given:?} is not a name the API server can answer to")]
    ApiServerName { given: String },

    #[error("the option {given:?} is missing `=` and a value")]
    OptionWithoutValue { given: String },
    #[error("the option {given:?} is missing the component or the key before `=`")]
    OptionWithoutKey { given: String },
    #[error("{given:?} is not a component: these are {}", Component::ALL.map(Component::name).join(", "))]
    UnknownComponent { given: String, nearest: Option<Component> },
    #[error("kubeadm's option {key:?} cannot be set")]
    KubeadmOption { key: String },
    #[error("{option} cannot be set: {why}")]
    ReservedOption {
        /// Its own; none if it is the whole cluster's.
        node: Option<NodeName>,
        option: ExtraOption,
        why: &'static str,
    },
    #[error("the kubelet of node {node} cannot have {given} of its own: {why}")]
    ReservedField { node: NodeName, given: String, why: &'static str },
    #[error("the pods have two ranges: {option} and {subnet}")]
    PodSubnetTwice { option: ExtraOption, subnet: Ipv4Net },
    #[error("{given:?} is not a feature with true or false")]
    FeatureGate { given: String },

    #[error("{given:?} is not a label")]
    Label { given: String },
    #[error("{given:?} is not a taint")]
    Taint { given: String },
    #[error("{given:?} is not a mount of a host's folder")]
    Mount { given: String },
    #[error("{given:?} would hide what is in {target} of a node")]
    MountOver { given: String, target: &'static str },
    #[error("{given:?} is not a port to forward")]
    Port { given: String },
    #[error("{given:?} is not a field of the kubelet's configuration")]
    KubeletSetting { given: String },
    #[error("{given:?} is not a field of the kubelet's configuration")]
    KubeletField { node: NodeName, given: String, nearest: Option<String> },
    #[error("{given:?} is not a container runtime that nodes have")]
    ContainerRuntime { given: String },
    #[error("this comes with the Docker driver, which is not there yet: nodes have containerd")]
    ComesWithDocker,
    #[error("the driver {given} is not there yet")]
    DriverToCome { given: String },
    #[error(
        "ISO images come with drivers of virtual machines, which are not there yet: nodes are made from bundles"
    )]
    IsoImage,
    #[error("{given:?} is not a pod network: these are flotilla, none, flannel, or a manifest's path")]
    Cni { given: String },
    #[error("{name} is a machine of cluster {cluster}")]
    NodeElsewhere { name: NodeName, cluster: ClusterName },
    #[error("port {port} of the host is in use: {by}")]
    PortTaken { node: NodeName, port: HostPort, by: String },
    #[error("the subnet has no address left for another node")]
    NoAddressLeft { node: Option<NodeName> },
    #[error("{count} nodes are too many: {limit} has room for {most}")]
    TooManyNodes { count: usize, most: usize, limit: NodeLimit },
    /// What somebody who knows more than we do has against it.
    #[error("{why}")]
    Unmet {
        requirement: Requirement,
        why: String,
        /// What to do about it, if there is something.
        cure: String,
        /// The name and the exit status that it has elsewhere.
        code: (&'static str, u8),
    },
    #[error("the cluster needs at least one node")]
    NoNodes,

    #[error("the cluster has a node {name} already")]
    NodeThere { name: NodeName },
    #[error("two nodes have the name {name}")]
    DuplicateNode { name: NodeName },
    #[error("the cluster has no control plane")]
    NoControlPlane,
    #[error("node {node} wants {wanted} CPUs, the host has {host}")]
    Cores { node: NodeName, wanted: u32, host: u32 },
    #[error("node {node} wants {} MiB of memory, the host has {} MiB", wanted / MIB, host / MIB)]
    MemoryOverHost { node: NodeName, wanted: u64, host: u64 },
    #[error("the nodes that run want {} MiB of memory together, the host has {} MiB", wanted / MIB, host / MIB)]
    MemoryTogether { wanted: u64, host: u64 },
    #[error("node {node} has {} MiB of memory, a {role} needs {} MiB", wanted / MIB, least / MIB)]
    MemoryTooSmall { node: NodeName, role: Role, wanted: u64, least: u64 },
    #[error("node {node} has a disk of {} MiB, it needs {} MiB", wanted / MIB, least / MIB)]
    DiskTooSmall { node: NodeName, wanted: u64, least: u64 },

    #[error("the kubelet {kubelet} of node {node} is too {} for the cluster's {cluster}", if .kubelet > .cluster { "new" } else { "old" })]
    KubeletSkew { node: NodeName, kubelet: KubernetesVersion, cluster: KubernetesVersion },
    #[error("the control plane {node} cannot be {wanted} in a cluster of {cluster}")]
    ControlPlaneVersion { node: NodeName, wanted: KubernetesVersion, cluster: KubernetesVersion },
    #[error("node {node} has both a version and a bundle, and a bundle has its version")]
    VersionAndBundle { node: NodeName },
    #[error("node {node} cannot have {option} for itself: only the kubelet is a node's own")]
    OptionOfCluster { node: NodeName, option: ExtraOption },
    #[error("node {node} has two mounts on {}", .target.display())]
    MountTwice { node: NodeName, target: PathBuf },
    #[error("the port {port} of node {node} is taken by {other_port} of node {other}")]
    PortTwice { node: NodeName, port: HostPort, other: NodeName, other_port: HostPort },

    #[error("{given:?} is not an apiVersion this flotilla knows, it wants {known:?}")]
    ApiVersion { given: String, known: &'static str },
    #[error("{given:?} is not a kind this flotilla knows, it wants {known:?}")]
    Kind { given: String, known: &'static str },
    #[error("line {line}, column {column} (`{text}`): {problem}")]
    Malformed { line: u64, column: u64, text: String, problem: String },

    #[error("{problem}")]
    Syntax { problem: String },
    #[error("the key {key:?} is missing")]
    MissingKey { key: &'static str },
    #[error("{given:?} is not a key here: these are {known}")]
    UnknownKey { given: String, known: String, nearest: Option<String> },
    #[error("{given:?} is not a {what}: these are {known}")]
    UnknownWord { what: &'static str, given: String, known: String, nearest: Option<String> },
    #[error("the key {given:?} is there twice")]
    DuplicateKey { given: String },
    #[error("here should be {wanted}")]
    Shape { wanted: &'static str },
    #[error("{given:?} is not a whole number from 1 to {most}")]
    Number { given: String, most: u32 },
    #[error("a node that has a name cannot be counted")]
    NameAndCount,
    #[error("the control plane {node} cannot be stopped while other nodes run, and no other control plane")]
    StoppedControlPlane { node: NodeName },
    #[error("{count} control planes bear no more failures than {}: an odd number is better", count - 1)]
    EvenControlPlanes { count: usize },
    /// Place and hint are part of the text: each stands for itself in a list of many.
    #[error("{place}: {error}{}", .error.hint().map(|hint| format!("; {hint}")).unwrap_or_default())]
    At { place: Place, error: Box<SpecError> },
}

/// Something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// None: the whole cluster asks for it.
    pub node: Option<NodeName>,
    /// Its key in a file.
    pub key: &'static str,
    /// Which of several.
    pub item: Option<String>,
}

/// Where in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: String,
    line: u64,
    column: u64,
    /// The line itself.
    text: String,
}

impl Place {
    /// How much of a line is shown.
    const SHOWN: usize = 80;

    pub(crate) fn new(file: &str, text: &str, line: u64, column: u64) -> Self {
        Self { file: file.to_owned(), line, column, text: Self::line_of(text, line) }
    }

    /// Its line and column.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.line, self.column)
    }

    /// A line, as it can be shown.
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

/// What an exit status is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecErrorKind {
    /// A value, or two of them together, that no host could do.
    Usage,
    Memory,
    Cores,
    Disk,
    /// The file, or what only a file can get wrong.
    Config,
    /// It has a name and a status already.
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
            // The same as when a program has it, which the driver finds.
            Self::PortTaken { .. } => SpecErrorKind::Named("IF_PORT_IN_USE", 71),
            Self::Unmet { code: (name, exit_status), .. } => SpecErrorKind::Named(name, *exit_status),
            Self::DuplicateNode { .. }
            | Self::NoControlPlane
            | Self::ApiVersion { .. }
            | Self::Kind { .. }
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
            // What is wrong in a file is the file's fault, except where it is the host that is too small.
            Self::At { error, .. } => match error.kind() {
                SpecErrorKind::Usage => SpecErrorKind::Config,
                kind => kind,
            },
            _ => SpecErrorKind::Usage,
        }
    }

    /// What the person can write instead.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Name { better: Some(better), .. } => Some(format!("try `{better}`")),
            Self::UnknownKey { nearest: Some(nearest), .. }
            | Self::KubeletField { nearest: Some(nearest), .. }
            | Self::UnknownWord { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::Unmet { cure, .. } => Some(cure.clone()).filter(|cure| !cure.is_empty()),
            Self::NameAndCount => {
                Some("leave out `name`: counted nodes are named by the cluster and their number".to_owned())
            }
            Self::StoppedControlPlane { .. } => {
                Some("stop the other nodes as well, or let it run".to_owned())
            }
            Self::UnknownComponent { nearest: Some(nearest), .. } => Some(format!("try `{nearest}`")),
            Self::Size { .. } => {
                Some("a size is a number of megabytes (`3072`) or has a unit (`512m`, `1.5g`)".to_owned())
            }
            Self::Cpus { .. } => Some("write a whole number from 1, `max` or `no-limit`".to_owned()),
            Self::Version { .. } => Some("write a full version, for instance `v1.37.1`".to_owned()),
            Self::Range { .. } => {
                Some("write an address and a prefix, for instance `10.0.0.0/24`".to_owned())
            }
            Self::NoFreeRange { .. } => Some("name one with --subnet or --pod-subnet".to_owned()),
            Self::Label { .. } => Some("write `key=value`, with commas between several".to_owned()),
            Self::Taint { .. } => {
                Some("write `key=value:NoSchedule`, PreferNoSchedule or NoExecute".to_owned())
            }
            Self::NodeElsewhere { .. } => Some("give the node another name".to_owned()),
            Self::NodeThere { .. } => Some("give the new one another name, or none: a free one is found".to_owned()),
            Self::MountOver { .. } => Some("mount it on a folder of its own, for instance `/mnt/data`".to_owned()),
            Self::PortTaken { .. } | Self::PortTwice { .. } => Some("forward another port of the host".to_owned()),
            Self::NoAddressLeft { .. } => Some(
                "a cluster made with a larger --subnet, a larger --pod-subnet or smaller ranges \
                 (--node-pod-prefix) has room for more"
                    .to_owned(),
            ),
            Self::TooManyNodes { limit, .. } => Some(limit.cure().to_owned()),
            Self::ContainerRuntime { .. } => {
                Some("every node has containerd, as the bundle has it: leave it out".to_owned())
            }
            Self::DriverToCome { .. } => {
                Some("leave it out: `native` makes nodes out of Linux namespaces".to_owned())
            }
            Self::Mount { .. } => Some(
                "write `/folder/of/the/host:/folder/in/the/node`, with `:ro` behind it if it may only be read"
                    .to_owned(),
            ),
            Self::Port { .. } => {
                Some("write `8080:30080`, `0.0.0.0:8080:30080` or `5353:30053/udp`: the host's port first".to_owned())
            }
            Self::KubeletSetting { .. } => {
                Some("write the fields of a KubeletConfiguration, for instance `maxPods: 50`".to_owned())
            }
            Self::KubeletField { nearest: None, .. } => Some(format!(
                "these are known up to Kubernetes v1.{MINOR}; a newer kubelet, or one from a `bundle` of your own, may have others"
            )),
            Self::Cni { given } if ["calico", "cilium", "kindnet"].contains(&given.as_str()) => {
                Some(format!("give the path of {given}'s manifest: `--cni ./{given}.yaml`"))
            }
            Self::HostBits { range, .. } => Some(format!("write `{range}`")),
            Self::Taken { usage: RangeUse::Services, .. } => {
                Some("give services another range with --service-cluster-ip-range".to_owned())
            }
            Self::Taken { .. } => {
                Some("choose another range, or leave it out to have a free one chosen".to_owned())
            }
            Self::OptionWithoutValue { .. } | Self::OptionWithoutKey { .. } => {
                Some("write `component.key=value`, for instance `kubelet.max-pods=50`".to_owned())
            }
            Self::KubeadmOption { .. } => {
                let [one, other] = KUBEADM_KEYS;
                Some(format!("of kubeadm's options only `{one}` and `{other}` can be set"))
            }
            Self::ReservedOption { .. } | Self::ReservedField { .. } => Some("leave it out".to_owned()),
            Self::PodSubnetTwice { .. } => Some("leave out the option, and keep `podSubnet`".to_owned()),
            Self::FeatureGate { .. } => {
                Some("write `Name=true` or `Name=false`, with commas between several".to_owned())
            }
            Self::Cores { host, .. } => Some(format!("give it at most {host}, or `max`")),
            Self::MemoryOverHost { host, .. } => {
                let most = host.saturating_mul(NONSENSE) / MIB;
                Some(format!("give it `max`, or at most {NONSENSE} times what the host has: {most}m"))
            }
            Self::KubeletSkew { cluster, .. } => {
                let minors = cluster.takes_kubelets();
                Some(format!("it can be from v1.{} to v1.{}", minors.start(), minors.end()))
            }
            Self::ControlPlaneVersion { .. } => {
                Some("give the whole cluster another version, or only its workers".to_owned())
            }
            Self::VersionAndBundle { .. } => Some("leave out the version".to_owned()),
            Self::OptionOfCluster { .. } => {
                Some("give it to the whole cluster: `extraConfig` beside `nodes`, or `start --extra-config`".to_owned())
            }
            Self::MemoryTooSmall { least, .. } | Self::DiskTooSmall { least, .. } => {
                Some(format!("give it at least {}m", least / MIB))
            }
            _ => None,
        }
    }
}
