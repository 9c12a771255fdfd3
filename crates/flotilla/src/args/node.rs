//! What can be typed about the nodes of a cluster.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::cluster::{IpArgs, LockArgs, LogsArgs, SshArgs, StatusArgs, parse_duration};
use super::{Output, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    #[command(visible_alias = "create")]
    Add(NodeAddArgs),
    Start(NodeStartArgs),
    Stop(NodeStopArgs),
    #[command(visible_alias = "remove")]
    Delete(NodeDeleteArgs),
    #[command(visible_alias = "ls")]
    List(NodeListArgs),
    Status(StatusArgs),
    Ip(IpArgs),
    Ssh(SshArgs),
    Logs(LogsArgs),
}

/// Add workers to a cluster, while it runs
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla node add\n  \
    flotilla node add big --cpus 2 --memory 4g --labels disk=ssd\n  \
    flotilla node add --count 3 --taints dedicated=batch:NoSchedule")]
pub(crate) struct NodeAddArgs {
    /// Name of the node [default: the cluster's name and a number]
    #[arg(value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// The same, as a flag
    #[arg(long, value_name = "NAME", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// How many
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) count: u32,
    /// Accepted for minikube's scripts: nodes are workers
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
    #[command(flatten)]
    pub(crate) settings: NodeSettingsArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What a node may have of its own.
#[derive(Debug, Args)]
pub(crate) struct NodeSettingsArgs {
    /// Processors: a number, `max`, or `no-limit` [default: no-limit]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Memory: megabytes, or with a unit (3g, 3Gi), `max`, or `no-limit` [default: no-limit]
    #[arg(long, short, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Disk, for drivers whose machines have their own
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_size: Option<String>,
    /// Labels that it registers with
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(crate) labels: Option<String>,
    /// Taints that it registers with
    #[arg(long, value_name = "KEY=VALUE:EFFECT,…", value_delimiter = ',')]
    pub(crate) taints: Vec<String>,
}

/// Start nodes that were stopped
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node start m02\n  flotilla node start --all")]
pub(crate) struct NodeStartArgs {
    /// Nodes, by their full or short names
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "name"])]
    pub(crate) nodes: Vec<String>,
    /// The same, as a flag
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// All nodes of the cluster
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Stop nodes; they keep their state and stay in the cluster's list
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla node stop m02\n  flotilla node stop m02 m03 --drain")]
pub(crate) struct NodeStopArgs {
    /// Nodes, by their full or short names
    #[arg(value_name = "NAME", required = true)]
    pub(crate) nodes: Vec<String>,
    /// Move their pods to other nodes first
    #[arg(long)]
    pub(crate) drain: bool,
    #[command(flatten)]
    pub(crate) draining: DrainArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete nodes: their pods move, they leave the cluster, machine and data are gone
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

/// How nodes are emptied.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DrainArgs {
    /// How long pods may take to move
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub(crate) drain_timeout: Duration,
    /// After that time, go on without them, whatever their disruption budgets say
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
    /// Show each node by this template, such as `{{.Name}} {{.IP}}`
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

impl NodeCommand {
    pub(super) fn output(&self) -> Output {
        match self {
            Self::Add(args) => args.output.output,
            Self::Start(args) => args.output.output,
            Self::Stop(args) => args.output.output,
            Self::Delete(args) => args.output.output,
            Self::List(args) if args.output == NodeListOutput::Json => Output::Json,
            Self::Status(args) => args.output.output,
            Self::Ip(args) => args.output.output,
            Self::List(_) | Self::Ssh(_) | Self::Logs(_) => Output::Text,
        }
    }
}
