//! Arguments of the commands that list clusters like other programs.

use clap::{Args, Subcommand, ValueEnum};

use super::{Output, OutputArgs};

/// Select the cluster of commands without -p; list clusters
///
/// Without a name it prints the selected one. `default` selects none. A deleted cluster is not selected any more.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    flotilla profile demo            commands without -p are about demo\n  \
    flotilla profile default\n  \
    flotilla profile list -o json --light"
)]
pub(crate) struct ProfileArgs {
    /// Cluster to select
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<ProfileCommand>,
}

impl ProfileArgs {
    pub(super) fn output(&self) -> Output {
        self.command.as_ref().map_or(Output::Text, ProfileCommand::output)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    List(ProfileListArgs),
}

/// List the clusters of this host in minikube's format
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla profile list\n  \
    flotilla profile list -o json | jq -r '.valid[].Name'")]
pub(crate) struct ProfileListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: ProfileListOutput,
    /// Do not check whether they run
    #[arg(short, long)]
    pub(crate) light: bool,
    /// Show the port of the API as well
    #[arg(short, long)]
    pub(crate) detailed: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileListOutput {
    #[default]
    #[value(alias = "text")]
    Table,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// List the names of the clusters of this host
    #[command(
        alias = "cluster",
        after_help = "Examples:\n  flotilla get clusters\n  flotilla get clusters -o json"
    )]
    Clusters(OutputArgs),
}

impl ProfileCommand {
    fn output(&self) -> Output {
        let Self::List(args) = self;
        match args.output {
            ProfileListOutput::Table => Output::Text,
            ProfileListOutput::Json => Output::Json,
        }
    }
}
