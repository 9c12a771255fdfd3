//! The command line: the clap types, and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use flotilla_core::explain::DEFAULT_CLUSTER;

use crate::screen::Stream;

mod accepted;
mod cluster;
mod etcd;
mod file;
mod headings;
mod list;
mod node;

pub(crate) use accepted::{AcceptedArgs, AcceptedStartArgs, DeleteOnFailureArgs};
pub(crate) use cluster::{
    ControlPlaneArgs, CopyArgs, DeleteArgs, DockerEnvArgs, IpArgs, KubectlArgs, LayoutArg, LogsArgs,
    PauseArgs, SshArgs, StartArgs, StatusArgs, StopArgs,
};
pub(crate) use etcd::{EtcdCommand, RecoverArgs, SnapshotCommand, SnapshotRestoreArgs, SnapshotSaveArgs};
pub(crate) use file::{ApplyArgs, DiffArgs};
pub(crate) use list::{GetCommand, ProfileArgs, ProfileCommand, ProfileListArgs, ProfileListOutput};
pub(crate) use node::{
    NodeAddArgs, NodeCommand, NodeCopyArgs, NodeDeleteArgs, NodeListArgs, NodeListOutput, NodeMakingArgs,
    NodeSettingsArgs, NodeStartArgs, NodeStopArgs, NodeUpdateArgs,
};

/// A real multi-node Kubernetes cluster on your own machine, in seconds
#[derive(Debug, Parser)]
#[command(name = "flotilla", version = concat!("v", env!("CARGO_PKG_VERSION")), arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    flotilla start                         create and start a cluster\n  \
    flotilla kubectl -- get pods -A        use it (your own kubectl works, too)\n  \
    flotilla stop                          stop it and keep its data\n  \
    flotilla delete                        delete it\n  \
    flotilla doctor                        check this host for problems\n  \
    source <(flotilla completion bash)     tab completion for this shell")]
pub(crate) struct Cli {
    /// Name of the cluster
    #[arg(long, short, global = true, value_name = "NAME", help_heading = "Global options",
          help = format!("Name of the cluster [default: {DEFAULT_CLUSTER}]"))]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) accepted: AcceptedArgs,
    /// Log level: 1 for steps and programs, 4 also for API requests, 7 for everything
    #[arg(long, short = 'v', global = true, value_name = "LEVEL", visible_alias = "v",
          help_heading = "Global options", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub(crate) verbosity: Option<u8>,
    /// Same as `-v 1`
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Start(Box<StartArgs>),
    Status(StatusArgs),
    /// List the clusters of this host
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  \
        flotilla list\n  \
        flotilla list -o json | jq -r '.[] | select(.status == \"Running\") | .name'"
    )]
    List(OutputArgs),
    Stop(StopArgs),
    Delete(DeleteArgs),
    Apply(ApplyArgs),
    Diff(DiffArgs),
    /// Print the cluster file of a cluster
    #[command(after_help = "Examples:\n  \
        flotilla export > cluster.yaml\n  \
        flotilla export -p demo | ssh other-host flotilla start -f -")]
    Export,
    /// Print the JSON schema of the cluster file, for editors
    #[command(after_help = "Examples:\n  \
        flotilla schema > cluster.schema.json\n  \
        flotilla schema | jq '.properties.nodes'")]
    Schema,
    /// Pause Kubernetes; your own pods keep running
    #[command(
        after_help = "Examples:\n  flotilla pause\n  flotilla pause -A      pause your own pods as well"
    )]
    Pause(PauseArgs),
    /// Unpause Kubernetes
    #[command(after_help = "Examples:\n  flotilla unpause\n  flotilla unpause -p demo")]
    Unpause(PauseArgs),
    #[command(hide = true)]
    DockerEnv(DockerEnvArgs),
    /// Manage the nodes of a running cluster
    #[command(
        subcommand,
        alias = "worker",
        after_help = "Examples:\n  \
        flotilla node add                    add a worker\n  \
        flotilla node list\n  \
        flotilla node update m02 --labels disk=ssd\n  \
        flotilla node stop m02               stays in the cluster, NotReady\n  \
        flotilla node delete m02             drain, remove, delete its data"
    )]
    Node(NodeCommand),
    Profile(ProfileArgs),
    /// List clusters (same command and format as kind)
    #[command(subcommand, after_help = "Examples:\n  flotilla get clusters\n  flotilla get clusters -o json")]
    Get(GetCommand),
    /// Show the members of etcd, save and restore snapshots
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        flotilla etcd status                   members, leader, how many may fail\n  \
        flotilla etcd snapshot save FILE\n  \
        flotilla etcd snapshot restore FILE"
    )]
    Etcd(EtcdCommand),
    Recover(RecoverArgs),
    Kubectl(KubectlArgs),
    Ssh(SshArgs),
    Logs(LogsArgs),
    Cp(CopyArgs),
    Ip(IpArgs),
    /// Check this host for problems and suggest fixes
    #[command(after_help = "Examples:\n  flotilla doctor\n  flotilla doctor -o json")]
    Doctor(OutputArgs),
    /// Make the cluster the current context of your kubeconfig
    #[command(after_help = "Examples:\n  flotilla update-context\n  flotilla update-context -p demo")]
    UpdateContext(OutputArgs),
    /// Manage bundles: everything that a node needs, in one directory
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        flotilla bundle build                        the newest known Kubernetes\n  \
        flotilla bundle show v1.37.1                 its contents and their sources\n  \
        flotilla bundle export v1.37.1 k8s.tar.zst   for a machine without network"
    )]
    Bundle(BundleCommand),
    Version(VersionArgs),
    Completion(CompletionArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    Build(BuildArgs),
    /// List the bundles on this machine
    #[command(after_help = "Examples:\n  \
        flotilla bundle list\n  \
        flotilla bundle list -o json | jq -r '.[].digest'")]
    List(OutputArgs),
    /// Show the contents of a bundle, their sources and sizes
    #[command(after_help = "Examples:\n  \
        flotilla bundle show v1.37.1\n  \
        flotilla bundle show deef2ae31254 -o json | jq .images")]
    Show(WhichArgs),
    /// Check every file of a bundle and name those that were modified
    #[command(after_help = "Examples:\n  \
        flotilla bundle verify v1.37.1\n  \
        flotilla bundle verify deef2ae31254 -o json")]
    Verify(WhichArgs),
    /// Remove a bundle that no cluster uses
    #[command(after_help = "Examples:\n  \
        flotilla bundle remove v1.36.4\n  \
        flotilla bundle remove deef2ae31254")]
    Remove(WhichArgs),
    /// Remove caches, downloads and parts that no bundle uses
    #[command(after_help = "Examples:\n  \
        flotilla bundle clean\n  \
        flotilla bundle clean -o json")]
    Clean(OutputArgs),
    Export(ExportArgs),
    Import(ImportArgs),
}

/// Build a bundle unless it exists
///
/// The first build takes about 15 minutes on two cores and needs `go`, `gcc` and `apt` (nothing is installed on the
/// host). If interrupted, run it again to resume.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla bundle build\n  \
    flotilla bundle build --kubernetes-version v1.36.4\n  \
    flotilla bundle build --kubernetes-source ~/src/kubernetes")]
pub(crate) struct BuildArgs {
    /// Kubernetes version of the bundle [default: the newest that flotilla knows]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<String>,
    /// Source of the parts
    #[arg(long, value_enum, default_value_t)]
    pub(crate) source: SourceArg,
    /// Build Kubernetes from this git checkout instead of the pinned version
    #[arg(long, value_name = "PATH")]
    pub(crate) kubernetes_source: Option<PathBuf>,
    /// Keep the compilers' caches (7 GB) for the next build
    #[arg(long)]
    pub(crate) keep_cache: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum SourceArg {
    /// An existing bundle, else the first source that works on this host
    #[default]
    Auto,
    /// Build from pinned source with go, gcc and apt of this host
    Build,
}

#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// Kubernetes version, or the first digits of a digest
    #[arg(value_name = "VERSION|DIGEST")]
    pub(crate) which: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Export a bundle to one file, for a machine without network
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla bundle export v1.37.1 kubernetes-v1.37.1.tar.zst\n  \
    flotilla bundle export deef2ae31254 /media/stick/bundle.tar.zst")]
pub(crate) struct ExportArgs {
    /// Kubernetes version, or the first digits of a digest
    #[arg(value_name = "VERSION|DIGEST")]
    pub(crate) which: String,
    /// File to write (a zstd-compressed tar)
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Import an exported bundle
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla bundle import kubernetes-v1.37.1.tar.zst\n  \
    flotilla bundle import bundle.tar.zst --digest \"$(cat bundle.sha256)\"")]
pub(crate) struct ImportArgs {
    /// File that `flotilla bundle export` wrote
    pub(crate) file: PathBuf,
    /// Refuse a bundle with any other digest
    #[arg(long, value_name = "SHA256")]
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print the version of flotilla
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla version\n  \
    flotilla version --short\n  \
    flotilla version -o json | jq -r .flotillaVersion")]
pub(crate) struct VersionArgs {
    /// Print only the version number
    #[arg(long)]
    pub(crate) short: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print a script for tab completion in your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    source <(flotilla completion bash)\n  \
    flotilla completion zsh > \"${fpath[1]}/_flotilla\"\n  \
    flotilla completion fish > ~/.config/fish/completions/flotilla.fish")]
pub(crate) struct CompletionArgs {
    /// Shell to print the script for
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

impl Cli {
    /// The log level; nothing is logged by default.
    pub(crate) fn debug_level(&self) -> Option<u8> {
        self.verbosity.or(self.verbose.then_some(1)).filter(|level| *level > 0)
    }

    /// Where progress goes without a terminal: scripts for minikube take what `start` writes to standard error for problems.
    /// The steps of a dry run are data.
    pub(crate) fn progress(&self) -> Stream {
        match &self.command {
            Command::Start(args) if !args.dry_run => Stream::Output,
            _ => Stream::Error,
        }
    }

    /// The output format of the command.
    pub(crate) fn output(&self) -> Output {
        let args = match &self.command {
            Command::Bundle(command) => match command {
                BundleCommand::Build(args) => args.output,
                BundleCommand::List(output) | BundleCommand::Clean(output) => *output,
                BundleCommand::Show(args) | BundleCommand::Verify(args) | BundleCommand::Remove(args) => {
                    args.output
                }
                BundleCommand::Export(args) => args.output,
                BundleCommand::Import(args) => args.output,
            },
            Command::Version(args) => args.output,
            Command::Start(args) => args.output,
            Command::Status(args) => args.output,
            Command::Stop(args) => args.output,
            Command::Delete(args) => args.output,
            Command::Apply(args) => args.output,
            Command::Diff(args) => args.output,
            Command::Pause(args) | Command::Unpause(args) => args.output,
            Command::Cp(args) => args.output,
            Command::Ip(args) => args.output,
            Command::Node(command) => return command.output(),
            Command::Etcd(command) => return command.output(),
            Command::Recover(args) => args.output,
            Command::Doctor(output)
            | Command::UpdateContext(output)
            | Command::List(output)
            | Command::Get(GetCommand::Clusters(output)) => *output,
            Command::Profile(args) => return args.output(),
            Command::Export
            | Command::Schema
            | Command::Completion(_)
            | Command::DockerEnv(_)
            | Command::Kubectl(_)
            | Command::Ssh(_)
            | Command::Logs(_) => {
                return Output::Text;
            }
        };
        args.output
    }
}

/// All commands and flags, under their headings.
pub(crate) fn command() -> clap::Command {
    headings::applied(Cli::command())
}

/// Reads a command line. It begins with the program's own name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

impl Command {
    /// The first word of the command.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Status(_) => "status",
            Self::List(_) => "list",
            Self::Stop(_) => "stop",
            Self::Delete(_) => "delete",
            Self::Apply(_) => "apply",
            Self::Diff(_) => "diff",
            Self::Export => "export",
            Self::Schema => "schema",
            Self::Pause(_) => "pause",
            Self::Unpause(_) => "unpause",
            Self::DockerEnv(_) => "docker-env",
            Self::Node(_) => "node",
            Self::Profile(_) => "profile",
            Self::Get(_) => "get",
            Self::Etcd(_) => "etcd",
            Self::Recover(_) => "recover",
            Self::Kubectl(_) => "kubectl",
            Self::Ssh(_) => "ssh",
            Self::Logs(_) => "logs",
            Self::Cp(_) => "cp",
            Self::Ip(_) => "ip",
            Self::Doctor(_) => "doctor",
            Self::UpdateContext(_) => "update-context",
            Self::Bundle(_) => "bundle",
            Self::Version(_) => "version",
            Self::Completion(_) => "completion",
        }
    }

    /// Whether it changes something, so that the audit log has it. Programs in nodes and kubectl are not ours to log.
    pub(crate) fn is_audited(&self) -> bool {
        match self {
            Self::Start(args) => !args.dry_run,
            Self::Apply(args) => !args.dry_run,
            Self::Stop(_)
            | Self::Delete(_)
            | Self::Pause(_)
            | Self::Unpause(_)
            | Self::Recover(_)
            | Self::Cp(_)
            | Self::UpdateContext(_) => true,
            Self::Node(command) => command.changes_something(),
            Self::Etcd(command) => !matches!(command, EtcdCommand::Status(_)),
            _ => false,
        }
    }

    /// A start that is no dry run.
    pub(crate) fn is_start(&self) -> bool {
        matches!(self, Self::Start(args) if !args.dry_run)
    }
}

/// Whether the command line requests JSON, even if the rest of it is invalid.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    // Words after `--` are for another program.
    let own = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let words: Vec<_> = own.collect();
    let is_flag = |word: &str| ["-o", "--output"].contains(&word);
    words.iter().any(|word| ["-ojson", "-o=json", "--output=json"].contains(&word.as_ref()))
        || words.windows(2).any(|pair| is_flag(&pair[0]) && pair[1] == "json")
}

#[cfg(test)]
#[path = "args/reference.rs"]
mod reference;
