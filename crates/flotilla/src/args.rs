//! What can be typed: the clap types, and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flotilla_core::explain::DEFAULT_CLUSTER;

mod cluster;
mod etcd;
mod file;
mod list;
mod node;

pub(crate) use cluster::{
    ControlPlaneArgs, CopyArgs, DeleteArgs, DockerEnvArgs, IpArgs, KubectlArgs, LayoutArg, LockArgs,
    LogsArgs, PauseArgs, RuntimeArgs, SshArgs, StartArgs, StatusArgs, StopArgs,
};
pub(crate) use etcd::{EtcdCommand, RecoverArgs, SnapshotCommand, SnapshotRestoreArgs, SnapshotSaveArgs};
pub(crate) use file::{ApplyArgs, DiffArgs};
pub(crate) use list::{GetCommand, ProfileCommand, ProfileListArgs, ProfileListOutput};
pub(crate) use node::{
    NodeAddArgs, NodeCommand, NodeCopyArgs, NodeDeleteArgs, NodeListArgs, NodeListOutput, NodeMakingArgs,
    NodeSettingsArgs, NodeStartArgs, NodeStopArgs, NodeUpdateArgs,
};

/// A real multi-node Kubernetes cluster on your own machine, in seconds
#[derive(Debug, Parser)]
#[command(name = "flotilla", version = concat!("v", env!("CARGO_PKG_VERSION")), arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    flotilla start                         a Kubernetes cluster on this machine\n  \
    flotilla kubectl -- get pods -A        use it (your own kubectl can, too)\n  \
    flotilla stop                          power it off; it keeps all it holds\n  \
    flotilla delete                        remove it\n  \
    flotilla doctor                        what this host lacks or has in the way\n  \
    source <(flotilla completion bash)     tab completion for this shell")]
pub(crate) struct Cli {
    /// Name of the cluster
    #[arg(long, short, global = true, value_name = "NAME", help_heading = "Global options",
          help = format!("Name of the cluster [default: {DEFAULT_CLUSTER}]"))]
    pub(crate) profile: Option<String>,
    /// Accepted for minikube's scripts
    #[arg(long, global = true, hide = true)]
    pub(crate) alsologtostderr: bool,
    /// Print what is done: 1 every step and program, 4 also requests to the API, 7 everything
    #[arg(long, short = 'v', global = true, value_name = "LEVEL", visible_alias = "v",
          help_heading = "Global options", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub(crate) verbosity: Option<u8>,
    /// The same as `-v 1`
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
    /// Print a cluster as a file that makes the same one
    #[command(after_help = "Examples:\n  \
        flotilla export > cluster.yaml\n  \
        flotilla export -p demo | ssh other-host flotilla start -f -")]
    Export,
    /// Print the JSON schema of the cluster's file, for editors
    #[command(after_help = "Examples:\n  \
        flotilla schema > cluster.schema.json\n  \
        flotilla schema | jq '.properties.nodes'")]
    Schema,
    /// Freeze Kubernetes; pods of your own go on
    #[command(after_help = "Examples:\n  flotilla pause\n  flotilla pause -A      your own pods as well")]
    Pause(PauseArgs),
    /// Thaw what `pause` froze
    #[command(after_help = "Examples:\n  flotilla unpause\n  flotilla unpause -p demo")]
    Unpause(PauseArgs),
    #[command(hide = true)]
    DockerEnv(DockerEnvArgs),
    /// Manage the nodes of a cluster, while it runs
    #[command(
        subcommand,
        alias = "worker",
        after_help = "Examples:\n  \
        flotilla node add                    one more worker\n  \
        flotilla node list\n  \
        flotilla node update m02 --labels disk=ssd\n  \
        flotilla node stop m02               it stays in the cluster, NotReady\n  \
        flotilla node delete m02             drained, removed, gone"
    )]
    Node(NodeCommand),
    /// List clusters as minikube does
    #[command(
        subcommand,
        after_help = "Examples:\n  flotilla profile list\n  flotilla profile list -o json --light"
    )]
    Profile(ProfileCommand),
    /// List clusters as kind does
    #[command(subcommand, after_help = "Examples:\n  flotilla get clusters\n  flotilla get clusters -o json")]
    Get(GetCommand),
    /// Show, save and restore what the cluster's API holds
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        flotilla etcd status                   who is a member, how many may fail\n  \
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
    /// Check what this host lacks or has in the way, and tell the cure
    #[command(after_help = "Examples:\n  flotilla doctor\n  flotilla doctor -o json")]
    Doctor(OutputArgs),
    /// Make the cluster the current context of your kubeconfig again
    #[command(after_help = "Examples:\n  flotilla update-context\n  flotilla update-context -p demo")]
    UpdateContext(OutputArgs),
    /// Manage bundles: everything that a node needs, in one folder
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        flotilla bundle build                        build the newest known Kubernetes\n  \
        flotilla bundle show v1.37.1                 what is in it, and from where\n  \
        flotilla bundle export v1.37.1 k8s.tar.zst   for a machine without a network"
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
    /// Show what is in a bundle, where it came from and where its bytes go
    #[command(after_help = "Examples:\n  \
        flotilla bundle show v1.37.1\n  \
        flotilla bundle show deef2ae31254 -o json | jq .images")]
    Show(WhichArgs),
    /// Read every byte and name each file that is not as it was made
    #[command(after_help = "Examples:\n  \
        flotilla bundle verify v1.37.1\n  \
        flotilla bundle verify deef2ae31254 -o json")]
    Verify(WhichArgs),
    /// Remove a bundle that no cluster uses
    #[command(after_help = "Examples:\n  \
        flotilla bundle remove v1.36.4\n  \
        flotilla bundle remove deef2ae31254")]
    Remove(WhichArgs),
    /// Free the disk of caches, downloads and parts that no bundle consists of
    #[command(after_help = "Examples:\n  \
        flotilla bundle clean\n  \
        flotilla bundle clean -o json")]
    Clean(OutputArgs),
    Export(ExportArgs),
    Import(ImportArgs),
}

/// Build a bundle, or find that it is there
///
/// The first build takes about 15 minutes on two cores and needs `go`, `gcc` and `apt` (nothing is installed on the
/// host). Interrupted or killed, it goes on from what was finished when it is run again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla bundle build\n  \
    flotilla bundle build --kubernetes-version v1.36.4\n  \
    flotilla bundle build --kubernetes-source ~/src/kubernetes")]
pub(crate) struct BuildArgs {
    /// Kubernetes version of the bundle [default: the newest that flotilla knows]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<String>,
    /// Where the parts come from
    #[arg(long, value_enum, default_value_t)]
    pub(crate) source: SourceArg,
    /// Build Kubernetes from this checkout instead of the pinned version
    #[arg(long, value_name = "PATH")]
    pub(crate) kubernetes_source: Option<PathBuf>,
    /// Keep what the compilers have cached (7 GB) for another build
    #[arg(long)]
    pub(crate) keep_cache: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum SourceArg {
    /// A bundle that is there, else the first source that works here
    #[default]
    Auto,
    /// Built from pinned source with this machine's go, gcc and apt
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

/// Write a bundle to one file, for a machine without a network
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

/// Take in a bundle that was exported elsewhere
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla bundle import kubernetes-v1.37.1.tar.zst\n  \
    flotilla bundle import bundle.tar.zst --digest \"$(cat bundle.sha256)\"")]
pub(crate) struct ImportArgs {
    /// File made by `flotilla bundle export`
    pub(crate) file: PathBuf,
    /// Refuse any bundle but the one with this digest
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
    /// Print the number alone
    #[arg(long)]
    pub(crate) short: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print a script that gives your shell tab completion
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    source <(flotilla completion bash)\n  \
    flotilla completion zsh > \"${fpath[1]}/_flotilla\"\n  \
    flotilla completion fish > ~/.config/fish/completions/flotilla.fish")]
pub(crate) struct CompletionArgs {
    /// Shell to write it for
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
    /// How much is printed of what is done; nothing by default.
    pub(crate) fn debug_level(&self) -> Option<u8> {
        self.verbosity.or(self.verbose.then_some(1)).filter(|level| *level > 0)
    }

    /// The output format of whichever command it is.
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
            Command::Profile(command) => return command.output(),
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

/// Whether JSON was asked for, also where the rest of the command line cannot be read.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    // What stands behind `--` is for another program.
    let own = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let words: Vec<_> = own.collect();
    let is_flag = |word: &str| ["-o", "--output"].contains(&word);
    words.iter().any(|word| ["-ojson", "-o=json", "--output=json"].contains(&word.as_ref()))
        || words.windows(2).any(|pair| is_flag(&pair[0]) && pair[1] == "json")
}

#[cfg(test)]
#[path = "args/reference.rs"]
mod reference;
