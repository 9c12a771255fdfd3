//! Arguments of the commands that list clusters like other programs.

use clap::{Args, Subcommand, ValueEnum};

use super::{Output, OutputArgs};

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
    pub(super) fn output(&self) -> Output {
        let Self::List(args) = self;
        match args.output {
            ProfileListOutput::Table => Output::Text,
            ProfileListOutput::Json => Output::Json,
        }
    }
}
