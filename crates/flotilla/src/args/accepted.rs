//! Flags that minikube's scripts pass, and what we make of them. docs/reference/minikube-flags.md lists them all.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Flags that every command accepts, before it and after it.
#[derive(Debug, Args)]
pub(crate) struct AcceptedArgs {
    /// User in the audit log
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Do not write the audit log
    #[arg(long, global = true, hide = true)]
    pub(crate) skip_audit: bool,
    /// Directory that gets a log file of the command
    #[arg(long = "log_dir", alias = "log-dir", global = true, hide = true, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// File that a log of the command is appended to
    #[arg(long = "log_file", alias = "log-file", global = true, hide = true, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) ignored: Ignored,
}

/// Flags of `start` for what does not exist here, or is always so.
#[derive(Debug, Args)]
pub(crate) struct AcceptedStartArgs {
    /// Prompt where there is a terminal
    #[arg(long, hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true")]
    pub(crate) interactive: bool,
    /// The cluster becomes the current context all the same
    #[arg(long, hide = true)]
    pub(crate) keep_context: bool,
    #[command(flatten)]
    pub(crate) failure: DeleteOnFailureArgs,
    #[command(flatten)]
    pub(crate) ignored: IgnoredByStart,
}

/// minikube deletes what a failed command has made. Here it stays, since the same command again resumes.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DeleteOnFailureArgs {
    #[arg(long, hide = true)]
    pub(crate) delete_on_failure: bool,
}

/// Switches that change nothing, with every command: klog's. Errors are always on stderr, and `-v` prints more there.
const SWITCHES: [&str; 6] =
    ["alsologtostderr", "logtostderr", "add_dir_header", "skip_headers", "skip_log_headers", "one_output"];
/// Flags with a value that change nothing, with every command.
const VALUES: [&str; 4] = ["stderrthreshold", "vmodule", "log_backtrace_at", "log_file_max_size"];
/// Switches of `start` that change nothing: there are no add-ons, drivers, preloads or images to be fetched, and the
/// kubeconfig always has its certificates embedded.
const OF_START: [&str; 9] = [
    "install-addons",
    "auto-update-drivers",
    "embed-certs",
    "cache-images",
    "preload",
    "native-ssh",
    "disable-driver-mounts",
    "disable-metrics",
    "disable-optimizations",
];

/// What every command ignores.
#[derive(Debug)]
pub(crate) struct Ignored;

/// What `start` ignores.
#[derive(Debug)]
pub(crate) struct IgnoredByStart;

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).hide(true).action(ArgAction::SetTrue)
}

impl Args for Ignored {
    fn augment_args(command: Command) -> Command {
        let values = VALUES.map(|name| Arg::new(name).long(name).hide(true));
        // minikube's scripts name it where others could be chosen.
        let bootstrapper = Arg::new("bootstrapper").long("bootstrapper").short('b').hide(true);
        let bootstrapper = bootstrapper.value_parser(["kubeadm"]);
        let all = SWITCHES.map(switch).into_iter().chain(values).chain([bootstrapper]);
        command.args(all.map(|arg| arg.global(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Ignored {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl Args for IgnoredByStart {
    fn augment_args(command: Command) -> Command {
        command.args(OF_START.map(switch))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for IgnoredByStart {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_lists_them() {
        const PAGE: &str = include_str!("../../../../docs/reference/minikube-flags.md");
        for name in SWITCHES.iter().chain(&VALUES).chain(&OF_START) {
            assert!(
                PAGE.contains(&format!("`--{name}`")),
                "--{name} is not in docs/reference/minikube-flags.md"
            );
        }
    }
}
