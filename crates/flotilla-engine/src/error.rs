//! Errors of the engine.

use std::path::{Path, PathBuf};

use flotilla_core::explain::{Code, Explain, INTERRUPTED, about, profile_flag};
use flotilla_core::{
    BootstrapError, Certificate, Cluster, DriverError, Finding, GuestError, KubeconfigError,
};
use flotilla_files::{Holder, LockError};
use flotilla_spec::error::SpecError;
use flotilla_spec::{ClusterName, HostMount, NodeName, nearest};

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{}", summary(.0))]
    Spec(Vec<SpecError>),
    #[error("host check failed: {}", .0.first().map_or("", |finding| finding.text.as_str()))]
    Host(Vec<Finding>),
    #[error("you are not root")]
    NotRoot { cure: String },
    #[error("cluster {name} does not exist")]
    NoCluster { name: ClusterName, others: Vec<ClusterName> },
    /// Between the first look at it and its lock.
    #[error("cluster {name} was deleted meanwhile")]
    DeletedMeanwhile { name: ClusterName },
    #[error("cluster {cluster} has no node {node}")]
    NoNode { cluster: ClusterName, node: String, nodes: Vec<NodeName> },
    #[error("node {node} is not running")]
    NotRunning { cluster: ClusterName, node: NodeName },
    /// The host of these nodes does not answer, so that nobody can say whether they are on.
    #[error("cannot {doing} {}: {why}", names(.nodes))]
    Unknown { cluster: ClusterName, nodes: Vec<NodeName>, doing: &'static str, why: String },
    #[error("cluster {0} is stopped")]
    Stopped(ClusterName),
    #[error(
        "cannot delete {} of cluster {cluster}",
        if *.going == 1 { "the last control plane".to_owned() } else { format!("all {going} control planes") }
    )]
    LastControlPlane { cluster: ClusterName, going: usize },
    /// Others exist, and none of them has data that is complete.
    #[error(
        "cannot delete {}: no other control plane of cluster {cluster} has a copy of its data, and all objects of the \
         API would be lost",
        names(.nodes)
    )]
    LastData { cluster: ClusterName, nodes: Vec<NodeName>, others: Vec<NodeName> },
    #[error("{doing} {nodes} would lose quorum: {left} of {total} members left")]
    QuorumLoss {
        cluster: ClusterName,
        up: usize,
        total: usize,
        doing: &'static str,
        nodes: String,
        left: usize,
    },
    #[error("etcd does not answer: the number of its healthy members is unknown")]
    QuorumUnknown { cluster: ClusterName },
    #[error(
        "cluster {cluster} has lost its control plane: {}, but {}",
        is_empty(.lost, .emptied), joined_before(.members)
    )]
    ControlPlaneLost {
        cluster: ClusterName,
        /// All its control planes.
        lost: Vec<NodeName>,
        /// Those of them whose disk exists, without etcd's database.
        emptied: Vec<NodeName>,
        /// Nodes that still are members; none if only the cluster's state says that it ran.
        members: Vec<NodeName>,
    },
    #[error(
        "the certificate authority {} of cluster {cluster} (on node {node}) expired on {}",
        .authority.name,
        .authority.expires.strftime("%Y-%m-%d")
    )]
    AuthorityExpired { cluster: ClusterName, node: NodeName, authority: Certificate },
    #[error("cannot boot node {node}: its mount {mount} conflicts with {owned}, which the node owns")]
    MountOver { cluster: ClusterName, node: NodeName, mount: HostMount, owned: &'static str },
    #[error("cluster {cluster} is paused")]
    Paused {
        cluster: ClusterName,
        /// The hint about `--force`, if the command has it.
        force: Option<&'static str>,
    },
    #[error("the API of cluster {cluster} does not answer")]
    ApiSilent { cluster: ClusterName, force: Option<&'static str> },
    #[error("etcd of cluster {cluster} has no quorum while {} {} off", names(.down), if .down.len() == 1 { "is" } else { "are" })]
    NoQuorum {
        cluster: ClusterName,
        /// Control planes that are off.
        down: Vec<NodeName>,
    },
    #[error("cluster {cluster} already exists with another {what}")]
    Different {
        cluster: ClusterName,
        what: String,
        /// The command that can change it, if there is one.
        change: Option<&'static str>,
    },
    #[error("cluster {cluster} has {}, not {wanted}", counted(*.has, what))]
    OtherCount {
        cluster: ClusterName,
        /// Of what, in the singular.
        what: &'static str,
        has: usize,
        wanted: u32,
        /// The command that can change it.
        change: &'static str,
    },
    #[error("another command is changing cluster {cluster}{}", held_by(.holder.as_ref()))]
    Busy { cluster: ClusterName, holder: Option<Holder> },
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("cannot read the state of cluster {cluster}: {} is damaged", path.display())]
    Damaged {
        cluster: ClusterName,
        path: PathBuf,
        /// The state before the last change, if that is kept.
        backup: Option<PathBuf>,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "{} was written by a newer flotilla: schema version {version} is not supported, the newest supported one is {newest}",
        path.display()
    )]
    Newer { cluster: ClusterName, path: PathBuf, version: u64, newest: u64 },
    #[error("the address ranges of cluster {cluster} are unknown: its state cannot be read")]
    RangesUnknown { cluster: ClusterName },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Bootstrap(BootstrapError),
    #[error("cannot change the kubeconfig")]
    Kubeconfig { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("interrupted")]
    Interrupted,
}

impl From<BootstrapError> for EngineError {
    fn from(error: BootstrapError) -> Self {
        match error {
            BootstrapError::Driver(error) => Self::Driver(error),
            error => Self::Bootstrap(error),
        }
    }
}

impl From<KubeconfigError> for EngineError {
    fn from(error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::Personal { source } => Self::Kubeconfig { source },
            KubeconfigError::Own { action, path, source } => Self::Io { action, path, source },
        }
    }
}

impl EngineError {
    /// About a node that a cluster does not have, with the names of those that it has.
    pub fn no_node(cluster: &Cluster, node: &str) -> Self {
        let nodes = cluster.spec.nodes.iter().map(|node| node.name.clone()).collect();
        Self::NoNode { cluster: cluster.name().clone(), node: node.to_owned(), nodes }
    }

    pub(crate) fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Interrupted
                | Self::Lock(LockError::Cancelled { .. })
                | Self::Bootstrap(
                    BootstrapError::Interrupted
                        | BootstrapError::Node { source: GuestError::Interrupted, .. }
                )
                | Self::Driver(DriverError::Guest(GuestError::Interrupted))
        )
    }
}

impl Explain for EngineError {
    fn code(&self) -> Code {
        if self.is_interruption() {
            return Code { name: INTERRUPTED, exit_status: 130 };
        }
        let (name, exit_status) = match self {
            Self::Spec(errors) => return errors.first().map_or(USAGE, Explain::code),
            Self::Host(findings) => match findings.first() {
                Some(finding) => (finding.code, finding.exit_status),
                None => ("HOST_UNFIT", 30),
            },
            Self::NotRoot { .. } => ("HOST_PERMISSION", 37),
            Self::NoCluster { .. } | Self::DeletedMeanwhile { .. } => ("GUEST_NO_CLUSTER", 85),
            Self::NoNode { .. } => ("GUEST_NODE_NOT_FOUND", 85),
            Self::NotRunning { .. } | Self::NoQuorum { .. } | Self::Stopped(_) => ("GUEST_NOT_RUNNING", 83),
            Self::Unknown { .. } | Self::Driver(DriverError::Unreachable { .. }) => ("HOST_UNREACHABLE", 39),
            Self::MountOver { .. } => ("HOST_NO_MOUNT", 35),
            Self::Paused { .. } => ("GUEST_PAUSED", 89),
            Self::ApiSilent { .. } => ("GUEST_API_SILENT", 89),
            Self::LastControlPlane { .. } => ("GUEST_LAST_CONTROL_PLANE", 81),
            Self::LastData { .. } => ("GUEST_LAST_DATA", 81),
            Self::ControlPlaneLost { .. } => ("GUEST_CONTROL_PLANE_LOST", 85),
            Self::AuthorityExpired { .. } => ("GUEST_CA_EXPIRED", 80),
            Self::QuorumLoss { .. } | Self::QuorumUnknown { .. } => ("GUEST_QUORUM", 81),
            Self::Different { .. } | Self::OtherCount { .. } => ("MK_CONFLICT", 11),
            Self::Busy { .. } => ("CLUSTER_BUSY", 11),
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                ("RSRC_DISK_FULL", 26)
            }
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                ("HOST_PERMISSION", 37)
            }
            Self::Io { .. } | Self::Lock(_) => ("HOST_IO", 30),
            Self::Damaged { .. } | Self::RangesUnknown { .. } => ("HOST_STATE_DAMAGED", 38),
            Self::Newer { .. } => ("HOST_STATE_NEWER", 38),
            Self::Driver(DriverError::Failed { code, .. }) => return *code,
            Self::Driver(DriverError::Guest(GuestError::Frozen { .. }))
            | Self::Bootstrap(BootstrapError::Node { source: GuestError::Frozen { .. }, .. }) => {
                ("GUEST_FROZEN", 89)
            }
            Self::Driver(DriverError::Guest(GuestError::TimedOut { .. }))
            | Self::Bootstrap(BootstrapError::Node { source: GuestError::TimedOut { .. }, .. }) => {
                ("GUEST_TIMEOUT", 82)
            }
            Self::Driver(DriverError::Guest(GuestError::OtherVersion { .. }))
            | Self::Bootstrap(BootstrapError::Node { source: GuestError::OtherVersion { .. }, .. }) => {
                ("GUEST_OTHER_VERSION", 89)
            }
            Self::Driver(DriverError::Guest(_)) => ("GUEST_EXEC", 80),
            Self::Bootstrap(BootstrapError::Node { source: GuestError::File { source, .. }, .. })
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                ("RSRC_DISK_FULL", 26)
            }
            Self::Bootstrap(BootstrapError::TimedOut { .. } | BootstrapError::Stalled { .. }) => {
                ("GUEST_START_TIMEOUT", 82)
            }
            Self::Bootstrap(BootstrapError::Undrained { .. }) => ("GUEST_NODE_DRAIN", 82),
            Self::Bootstrap(_) => ("GUEST_START", 80),
            Self::Kubeconfig { .. } => ("HOST_KUBECONFIG", 38),
            Self::Interrupted => (INTERRUPTED, 130),
        };
        Code { name, exit_status }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            error if error.is_interruption() => {
                vec!["run the command again to resume; `flotilla status` shows what runs".into()]
            }
            // Of several, each has its hint behind it: in the details.
            Self::Spec(errors) if errors.len() > 1 => Vec::new(),
            Self::Spec(errors) => errors.iter().flat_map(Explain::hints).collect(),
            Self::Host(findings) if findings.len() > 1 => Vec::new(),
            Self::Host(findings) => findings.iter().map(|finding| finding.cure.clone()).collect(),
            Self::NotRoot { cure } => vec![cure.clone()],
            Self::NoCluster { name, others } if others.is_empty() => {
                vec![format!("create it with `flotilla start{}`", profile_flag(name))]
            }
            Self::NoCluster { name, others } => {
                vec![format!("{}; choose one with -p", existing("clusters", name.as_ref(), others))]
            }
            Self::DeletedMeanwhile { name } => {
                vec![format!("create a new one with `flotilla start{}`", profile_flag(name))]
            }
            Self::NoNode { nodes, .. } if nodes.is_empty() => Vec::new(),
            Self::NoNode { node, nodes, .. } => vec![existing("nodes", node, nodes)],
            Self::NotRunning { cluster, node } => {
                vec![format!("start it with `flotilla node start {node}{}`", profile_flag(cluster))]
            }
            Self::Stopped(cluster) => {
                vec![format!("start it with `flotilla start{}`", profile_flag(cluster))]
            }
            Self::Different { cluster, change: Some(change), .. }
            | Self::OtherCount { cluster, change, .. } => vec![about(cluster, change)],
            Self::Different { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![format!("delete it first with `flotilla delete{flag}`, or choose another name with -p")]
            }
            Self::MountOver { cluster, node, mount, .. } => vec![without_mount(cluster, node, mount)],
            Self::NoQuorum { cluster, .. } => vec![bring_back(cluster)],
            Self::Paused { cluster, force } => {
                let unpause = format!("unpause it first with `flotilla unpause{}`", profile_flag(cluster));
                std::iter::once(unpause).chain(force.map(str::to_owned)).collect()
            }
            Self::ApiSilent { cluster, force } => {
                let flag = profile_flag(cluster);
                let look = format!("see why with `flotilla status{flag}`; repair it with `flotilla start{flag}`");
                std::iter::once(look).chain(force.map(str::to_owned)).collect()
            }
            Self::LastControlPlane { cluster, .. } => {
                vec![format!("`flotilla delete{}` deletes the cluster", profile_flag(cluster))]
            }
            Self::LastData { cluster, others, .. } => copy_elsewhere(cluster, others),
            Self::AuthorityExpired { cluster, .. } => vec![
                about(
                    cluster,
                    "flotilla cannot renew a certificate authority: create a new cluster under another name, restore \
                     the etcd database of a control plane (`/var/lib/etcd/member/snap/db` in its directory) there with \
                     `flotilla etcd snapshot restore --force FILE -p NEW`, and then delete this one with `flotilla delete`",
                ),
                DELETE_TAKES_DISKS.into(),
            ],
            Self::ControlPlaneLost { cluster, emptied, .. } => set_aside(cluster, emptied).into_iter().chain([
                about(cluster, "nothing was changed: if you have a backup of the node's directory, restore it and run `flotilla start`"),
                about(
                    cluster,
                    "otherwise all objects of the API are lost: delete the cluster with `flotilla delete`, create \
                     it again with `flotilla start`, and restore a snapshot, if you saved one, with \
                     `flotilla etcd snapshot restore --force FILE`",
                ),
                DELETE_TAKES_DISKS.into(),
            ]).collect(),
            Self::QuorumLoss { cluster, up, total, .. } if up < total => {
                vec![bring_back(cluster), FORCED.into()]
            }
            Self::QuorumLoss { .. } => vec![FORCED.into()],
            Self::QuorumUnknown { cluster } => vec![bring_back(cluster), FORCED.into()],
            Self::Busy { .. } => vec!["without --no-wait-lock this command waits for the other one".into()],
            Self::Damaged { path, backup, .. } => repair(path, backup.as_deref()),
            Self::Newer { cluster, .. } => {
                vec![format!("upgrade flotilla; cluster {cluster} was not changed")]
            }
            Self::RangesUnknown { cluster } => vec![format!(
                "repair cluster {cluster} (see `flotilla status -p {cluster}`), or choose ranges that it does not use \
                 with --subnet and --pod-subnet"
            )],
            Self::Kubeconfig { .. } => vec![
                "repair the file, or set KUBECONFIG to another one; `flotilla kubectl` works without it".into(),
            ],
            Self::Unknown { cluster, .. } => vec![format!(
                "make its host answer, then run the command again; `flotilla status{}` shows what is known",
                profile_flag(cluster)
            )],
            Self::Driver(DriverError::Unreachable { host, why }) => {
                vec![format!("{why}; make host {host} answer, then run the command again")]
            }
            Self::Driver(DriverError::Failed { hints, .. }) => hints.clone(),
            Self::Driver(DriverError::Guest(source)) if !unresponsive(source).is_empty() => unresponsive(source),
            Self::Bootstrap(error) => of_bootstrap(error),
            _ => Vec::new(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Spec(errors) if errors.len() > 1 => {
                errors.iter().map(|error| with_hints(&error.to_string(), &error.hints())).collect()
            }
            Self::Host(findings) if findings.len() > 1 => findings
                .iter()
                .map(|finding| with_hints(&finding.text, std::slice::from_ref(&finding.cure)))
                .collect(),
            Self::Bootstrap(
                BootstrapError::TimedOut { seen, .. }
                | BootstrapError::Stalled { seen, .. }
                | BootstrapError::Undrained { seen, .. }
                | BootstrapError::Crashing { seen, .. },
            ) => seen.clone(),
            Self::Driver(DriverError::Guest(error))
            | Self::Bootstrap(
                BootstrapError::Node { source: error, .. } | BootstrapError::PodNetwork { source: error },
            ) => tail(error),
            _ => Vec::new(),
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// One of several errors, with what can be done about it.
fn with_hints(error: &str, hints: &[String]) -> String {
    std::iter::once(error).chain(hints.iter().map(String::as_str)).collect::<Vec<_>>().join("; ")
}

/// Follows every hint to delete a cluster that still has data.
const DELETE_TAKES_DISKS: &str = "deleting a cluster deletes the disks of all its nodes, with volumes and images: copy what you need first";

const FORCED: &str = "--force does it anyway; without quorum the API does not answer";

/// What to do before the last control plane that has etcd's data can be deleted.
fn copy_elsewhere(cluster: &ClusterName, others: &[NodeName]) -> Vec<String> {
    let start = match others.first() {
        Some(other) => format!(
            "let another control plane join first: `flotilla start` starts them all, `flotilla node start {other}` one of them"
        ),
        None => "start the control plane with `flotilla start`".to_owned(),
    };
    let delete = "or delete the whole cluster with `flotilla delete`; `flotilla etcd snapshot save FILE` saves its objects";
    vec![about(cluster, &start), about(cluster, delete)]
}

/// What to do about Kubernetes that does not start, or not in time.
fn of_bootstrap(error: &BootstrapError) -> Vec<String> {
    match error {
        BootstrapError::TimedOut { flag, .. } => {
            let look = "see why with `flotilla logs`; run the command again to resume".to_owned();
            let longer = flag.map(|flag| format!("on a slow machine wait longer with {flag}"));
            std::iter::once(look).chain(longer).collect()
        }
        BootstrapError::Stalled { node, .. } => vec![format!(
            "see why with `flotilla logs --node {node}`; run the command again to resume"
        )],
        BootstrapError::Undrained { .. } => {
            vec![
                "wait longer with --drain-timeout, or continue without them with --force".into(),
            ]
        }
        BootstrapError::PodNetwork { .. } => vec![
            "the cluster keeps the manifest that it was created with: delete the cluster and create it again \
             with another manifest"
                .into(),
        ],
        BootstrapError::Crashing { .. } => vec![
            "its version may not support its settings or feature gates: delete it and create it again with others"
                .into(),
        ],
        BootstrapError::Node { source, .. } if !unresponsive(source).is_empty() => {
            unresponsive(source)
        }
        BootstrapError::Node { source: GuestError::File { source, .. }, .. }
            if source.kind() == std::io::ErrorKind::StorageFull =>
        {
            vec!["free disk space for the state directory, then run the command again".into()]
        }
        BootstrapError::Node { node, .. } => vec![format!(
            "see why with `flotilla logs --node {node}`; run the command again to retry"
        )],
        _ => {
            vec!["see why with `flotilla logs`; run the command again to retry".into()]
        }
    }
}

/// What to do about a node that does not answer.
fn unresponsive(error: &GuestError) -> Vec<String> {
    match error {
        GuestError::Frozen { node, .. } => {
            vec![format!("unfreeze it with `flotilla start`, or stop it with `flotilla node stop {node}`")]
        }
        GuestError::OtherVersion { node } => vec![format!(
            "restart the cluster with `flotilla stop` and `flotilla start`: then node {node} has this version, too"
        )],
        GuestError::TimedOut { node, .. } => vec![format!(
            "see why with `flotilla logs --node {node}`, or restart it with `flotilla node stop {node}` and \
             `flotilla node start {node}`"
        )],
        _ => Vec::new(),
    }
}

fn without_mount(cluster: &ClusterName, node: &NodeName, mount: &HostMount) -> String {
    format!(
        "the node would delete files in {}: remove the mount with `flotilla node update {node} --mount {}-{}`, or \
         from the file that you apply",
        mount.source.display(),
        mount.target.display(),
        profile_flag(cluster)
    )
}

fn bring_back(cluster: &ClusterName) -> String {
    format!("start control planes that are down with `flotilla start{}`", profile_flag(cluster))
}

/// No data is lost: only the state file is damaged, the disks of the nodes are intact.
fn repair(path: &Path, backup: Option<&Path>) -> Vec<String> {
    let folder = path.parent().unwrap_or(path).display();
    let intact = format!("running nodes keep running, and the nodes' data is still in {folder}/nodes");
    let cure = match backup {
        Some(backup) => {
            format!("restore the state before the last change: `cp {} {}`", backup.display(), path.display())
        }
        None => format!("repair {} by hand, or restore it from a backup", path.display()),
    };
    vec![intact, cure]
}

/// Lists what exists, and suggests the most similar name.
fn existing<T: AsRef<str>>(what: &str, named: &str, there: &[T]) -> String {
    let there: Vec<&str> = there.iter().map(AsRef::as_ref).collect();
    let meant = nearest(named, &there).map(|meant| format!("did you mean {meant}? "));
    format!("{}existing {what}: {}", meant.unwrap_or_default(), there.join(", "))
}

const USAGE: Code = Code { name: "MK_USAGE", exit_status: 14 };

fn is_empty(lost: &[NodeName], emptied: &[NodeName]) -> String {
    if emptied.is_empty() {
        format!("the disk of {} is empty", names(lost))
    } else {
        format!("etcd has no data on the disk of {}", names(emptied))
    }
}

/// Where the data may be of control planes whose disk exists.
fn set_aside(cluster: &ClusterName, emptied: &[NodeName]) -> Option<String> {
    let text = "look for the data: it belongs to `var/lib/etcd/member` in the directory of the node, and `recover` and \
                `etcd snapshot restore` move it to `var/lib/etcd.before-N` there; if one of them was interrupted, run it \
                again";
    (!emptied.is_empty()).then(|| about(cluster, text))
}

fn joined_before(members: &[NodeName]) -> String {
    if members.is_empty() {
        "it has run before".into()
    } else {
        format!("{} joined it before", names(members))
    }
}

fn names(nodes: &[NodeName]) -> String {
    nodes.iter().map(NodeName::as_ref).collect::<Vec<_>>().join(", ")
}

fn summary(errors: &[SpecError]) -> String {
    match errors {
        [only] => only.to_string(),
        many => format!("{} errors in the request", many.len()),
    }
}

fn held_by(holder: Option<&Holder>) -> String {
    let told =
        |holder: &Holder| format!(": process {}, `{}`, since {}", holder.pid, holder.what, holder.since);
    holder.map(told).unwrap_or_default()
}

fn tail(error: &GuestError) -> Vec<String> {
    match error {
        GuestError::Failed { tail, .. } => tail.clone(),
        _ => Vec::new(),
    }
}
