//! Arguments of the commands about nodes.

use std::time::Duration;

use clap::{Args, Subcommand};
use flotilla_spec::SpecError;
use flotilla_spec::file::MOST_NODES;

use super::cluster::{
    DockerArgs, DockerEnvArgs, IpArgs, LockArgs, LogsArgs, PauseArgs, SshArgs, StatusArgs, WaitArgs,
    parse_duration,
};
use super::{DeleteOnFailureArgs, Output, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    #[command(visible_alias = "create")]
    Add(Box<NodeAddArgs>),
    Start(NodeStartArgs),
    Stop(NodeStopArgs),
    #[command(visible_alias = "remove")]
    Delete(NodeDeleteArgs),
    Update(Box<NodeUpdateArgs>),
    #[command(visible_alias = "ls")]
    List(NodeListArgs),
    Status(NodeStatusArgs),
    Ip(NodeIpArgs),
    Ssh(NodeSshArgs),
    Logs(NodeLogsArgs),
    Cp(NodeCopyArgs),
    /// Pause Kubernetes in one node
    ///
    /// Refused for a control plane if etcd would lose quorum.
    #[command(after_help = "Examples:\n  \
        flotilla node pause m02\n  \
        flotilla node pause m02 -A      pause all pods of the node")]
    Pause(NodePauseArgs),
    /// Unpause Kubernetes in one node
    #[command(after_help = "Examples:\n  \
        flotilla node unpause m02\n  \
        flotilla node unpause m02 -A")]
    Unpause(NodeUnpauseArgs),
    #[command(hide = true)]
    DockerEnv(DockerEnvArgs),
}

/// Add workers or control planes to a running cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla node add\n  \
    flotilla node add big --cpus 2 --memory 4g --labels disk=ssd\n  \
    flotilla node add --count 3 --taints dedicated=batch:NoSchedule\n  \
    flotilla node add --control-plane --count 2\n  \
    flotilla node add old --kubernetes-version v1.36.4\n  \
    flotilla node add web --mount /srv/www:/www:ro --port 8080:30080")]
pub(crate) struct NodeAddArgs {
    /// Name of the node [default: the cluster's name and a number]
    #[arg(value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Same as NAME
    #[arg(long, value_name = "NAME", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// Number of nodes; with a name they are named NAME-1, NAME-2, …
    #[arg(long, value_name = "K", default_value_t = 1, 
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    pub(crate) count: u32,
    /// Add control planes instead of workers
    #[arg(long)]
    pub(crate) control_plane: bool,
    /// Accepted for minikube's scripts: nodes are workers by default
    #[arg(long, hide = true, conflicts_with = "control_plane")]
    pub(crate) worker: bool,
    #[command(flatten)]
    pub(crate) settings: NodeSettingsArgs,
    #[command(flatten)]
    pub(crate) making: NodeMakingArgs,
    #[command(flatten)]
    pub(crate) failure: DeleteOnFailureArgs,
    #[command(flatten)]
    pub(crate) waiting: WaitArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Settings that are fixed for the lifetime of a node.
#[derive(Debug, Args)]
pub(crate) struct NodeMakingArgs {
    /// Kubernetes version of the kubelet [default: that of the cluster]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<String>,
    /// Bundle to create the node from: a version, or the first digits of a digest
    #[arg(long, value_name = "VERSION|DIGEST", visible_alias = "image", alias = "iso-url", value_parser = bundle)]
    pub(crate) bundle: Option<String>,
    /// Isolation: `user` for a user namespace, in which root is nobody on the host [default: as `start` was told]
    #[arg(long, value_name = "none|user")]
    pub(crate) isolation: Option<String>,
    /// Setting of the kubelet, overrides that of the cluster; may be repeated
    #[arg(long, value_name = "kubelet.KEY=VALUE", visible_alias = "extra-opts")]
    pub(crate) extra_config: Vec<String>,
    /// Feature gates of the kubelet, override those of the cluster
    #[arg(long, value_name = "GATE=BOOL,…")]
    pub(crate) feature_gates: Option<String>,
    /// Container runtime: always containerd
    #[arg(long, value_name = "NAME")]
    pub(crate) container_runtime: Option<String>,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
}

/// Refuses the URL of an ISO image, which minikube's flag takes.
fn bundle(given: &str) -> Result<String, SpecError> {
    if given.contains("://") { Err(SpecError::IsoImage) } else { Ok(given.to_owned()) }
}

/// Settings of one node that can be changed later.
#[derive(Debug, Args)]
pub(crate) struct NodeSettingsArgs {
    /// CPUs: a number, `max` or `no-limit`
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Memory: megabytes, or with a unit (3g, 3Gi), `max` or `no-limit`
    #[arg(long, short, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Disk size (ignored by the native driver)
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_size: Option<String>,
    /// Labels of the node
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',')]
    pub(crate) labels: Vec<String>,
    /// Taints of the node
    #[arg(long, value_name = "KEY=VALUE:EFFECT,…", value_delimiter = ',')]
    pub(crate) taints: Vec<String>,
    /// Mount a host directory into the node; may be repeated
    #[arg(long, value_name = "SRC:DST[:ro]")]
    pub(crate) mount: Vec<String>,
    /// Publish a port of the node on the host; may be repeated
    #[arg(
        long,
        value_name = "[IP:]HOST:NODE[/udp]",
        visible_alias = "publish",
        alias = "ports",
        value_delimiter = ','
    )]
    pub(crate) port: Vec<String>,
}

/// Change the size, labels, taints, mounts and ports of a node
///
/// Labels, taints and ports change immediately. CPUs, memory and mounts need a restart of the node, which is announced
/// and confirmed first. Other settings are unchanged. A trailing `-` removes an entry: a label or taint by its key
/// (`disk-`), a mount by its path in the node (`/www-`), a port by the host's port (`8080-`).
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla node update m02 --labels disk=ssd,zone-\n  \
    flotilla node update m02 --taints dedicated=batch:NoSchedule\n  \
    flotilla node update m02 --port 8080:30080 --port 9090-\n  \
    flotilla node update m02 --memory 4g --yes")]
pub(crate) struct NodeUpdateArgs {
    /// Node, by its full or short name
    #[arg(value_name = "NAME")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) settings: NodeSettingsArgs,
    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not prompt
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Restart a control plane even if etcd loses quorum meanwhile
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) waiting: WaitArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Start stopped nodes
///
/// Creates nodes that the spec has and the host does not.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flotilla node start m02\n  flotilla node start              start all nodes"
)]
pub(crate) struct NodeStartArgs {
    /// Nodes, by their full or short names [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) nodes: Vec<String>,
    /// Same as NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// All nodes of the cluster
    #[arg(long, conflicts_with_all = ["nodes", "name"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) failure: DeleteOnFailureArgs,
    #[command(flatten)]
    pub(crate) waiting: WaitArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Stop nodes; they keep their data and stay in the cluster
///
/// A control plane leaves etcd before it stops, so that the others keep quorum; `node start` lets it join again. Refused
/// if etcd would lose quorum.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node stop m02\n  flotilla node stop m02 m03 --drain")]
pub(crate) struct NodeStopArgs {
    /// Nodes, by their full or short names
    #[arg(value_name = "NAME", required = true)]
    pub(crate) nodes: Vec<String>,
    /// Drain the nodes first
    #[arg(long)]
    pub(crate) drain: bool,
    #[command(flatten)]
    pub(crate) draining: DrainArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Drain nodes, remove them and delete their data
///
/// Refused for the last control plane, and if etcd would lose quorum.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node delete m02\n  flotilla node delete m02 --force")]
pub(crate) struct NodeDeleteArgs {
    /// Nodes, by their full or short names
    #[arg(value_name = "NAME", required = true)]
    pub(crate) nodes: Vec<String>,
    #[command(flatten)]
    pub(crate) draining: DrainArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How nodes are drained.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DrainArgs {
    /// Maximum time to wait until the pods are evicted
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub(crate) drain_timeout: Duration,
    /// After --drain-timeout, delete pods that a disruption budget protects; also continue if etcd loses quorum
    #[arg(long)]
    pub(crate) force: bool,
}

/// List the nodes of a cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla node list\n  \
    flotilla node list -o wide\n  \
    flotilla node list --format '{{.Name}}'")]
pub(crate) struct NodeListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: NodeListOutput,
    /// Template for each node, such as `{{.Name}} {{.IP}}`
    #[arg(long, short, value_name = "TEMPLATE")]
    pub(crate) format: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NodeListOutput {
    #[default]
    Text,
    Wide,
    Json,
}

/// Show the status of one node, or of all
///
/// Exits with 0 if all is well, with 7 if a node is down, else with the sum of 2 (Kubernetes is unhealthy) and 4 (wrong
/// kubeconfig).
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla node status\n  \
    flotilla node status m02 -o json | jq -r .Kubelet")]
pub(crate) struct NodeStatusArgs {
    /// Node, by its full or short name [default: all]
    #[arg(value_name = "NAME", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) status: StatusArgs,
}

/// Print the address of a node
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node ip m02\n  curl \"http://$(flotilla node ip m02):30080\"")]
pub(crate) struct NodeIpArgs {
    #[command(flatten)]
    pub(crate) ip: IpArgs,
}

/// Open a shell in a node, or run a command there
///
/// Standard input and output are passed through unchanged. Exits with the exit status of the command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node ssh m02\n  flotilla node ssh m02 -- crictl ps")]
pub(crate) struct NodeSshArgs {
    /// Node, by its full or short name [default: the primary one]
    #[arg(value_name = "NAME", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// Same as NAME
    #[arg(long, short, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Command to run
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Show the logs of a node: kubelet, containerd, control plane
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node logs m02\n  flotilla node logs m02 -f -n 200")]
pub(crate) struct NodeLogsArgs {
    #[command(flatten)]
    pub(crate) logs: LogsArgs,
}

/// Copy files and directories to, from or between nodes
///
/// Like `flotilla cp`. With NAME, a path that begins with `:` is in that node; if neither does, the destination is.
#[derive(Debug, Args)]
#[command(override_usage = "flotilla node cp [OPTIONS] [NAME] <SRC> <DST>")]
#[command(after_help = "Examples:\n  \
    flotilla node cp m02 app.conf /etc/app.conf\n  \
    flotilla node cp m02 :/var/log/flotilla ./logs\n  \
    flotilla node cp m02:/etc/hosts m03:/tmp/hosts")]
pub(crate) struct NodeCopyArgs {
    /// Node, by its full or short name; then source and destination
    #[arg(value_names = ["NAME", "SRC", "DST"], num_args = 2..=3, required = true)]
    pub(crate) paths: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NodePauseArgs {
    /// Node, by its full or short name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Pause a control plane even if etcd loses quorum
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) pause: PauseArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NodeUnpauseArgs {
    /// Node, by its full or short name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) pause: PauseArgs,
}

impl NodeStatusArgs {
    /// The arguments of `flotilla status` that do the same.
    pub(crate) fn for_cluster(self) -> StatusArgs {
        StatusArgs { node: self.name.or(self.status.node), ..self.status }
    }
}

impl NodeSshArgs {
    pub(crate) fn for_cluster(self) -> SshArgs {
        SshArgs { node: self.name.or(self.node), command: self.command }
    }
}

impl NodeCommand {
    pub(super) fn changes_something(&self) -> bool {
        match self {
            Self::Update(args) => !args.dry_run,
            Self::List(_)
            | Self::Status(_)
            | Self::Ip(_)
            | Self::Ssh(_)
            | Self::Logs(_)
            | Self::DockerEnv(_) => false,
            _ => true,
        }
    }

    pub(super) fn output(&self) -> Output {
        match self {
            Self::Add(args) => args.output.output,
            Self::Start(args) => args.output.output,
            Self::Stop(args) => args.output.output,
            Self::Delete(args) => args.output.output,
            Self::Update(args) => args.output.output,
            Self::List(args) if args.output == NodeListOutput::Json => Output::Json,
            Self::Status(args) => args.status.output.output,
            Self::Ip(args) => args.ip.output.output,
            Self::Cp(args) => args.output.output,
            Self::Pause(args) => args.pause.output.output,
            Self::Unpause(args) => args.pause.output.output,
            Self::List(_) | Self::Ssh(_) | Self::Logs(_) | Self::DockerEnv(_) => Output::Text,
        }
    }
}
