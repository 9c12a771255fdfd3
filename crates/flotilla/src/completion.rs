//! Tab completion: the shell asks this program, which knows the names of clusters, nodes and bundles.

use std::ffi::OsString;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use flotilla_core::explain::DEFAULT_CLUSTER;
use flotilla_engine::store::ClusterStore;
use flotilla_spec::ClusterName;

use crate::args;
use crate::profile;
use crate::settings::Settings;
use crate::wiring::Wiring;

/// The variable by which the shell's script asks.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Answers a shell, if one asks. Says whether it did.
pub fn answer_shell(arguments: &[OsString]) -> bool {
    let profile = profile_in(arguments);
    let complete = CompleteEnv::with_factory(move || command(&profile)).var(VARIABLE);
    // A shell has no use for an error in the middle of a line.
    complete.try_complete(arguments.iter().cloned(), None).unwrap_or(true)
}

/// All that can be typed, with the names that are known here.
fn command(profile: &str) -> Command {
    named(args::command(), profile, true)
}

/// `is_known`: names of nodes in this command are those of nodes that exist.
fn named(command: Command, profile: &str, is_known: bool) -> Command {
    let below: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let with_args = command.mut_args(|arg| with_names(arg, profile, is_known));
    below.into_iter().fold(with_args, |command, name| {
        let is_known = !["add", "create"].contains(&name.as_str());
        command.mut_subcommand(name, |sub| named(sub, profile, is_known))
    })
}

fn with_names(arg: Arg, profile: &str, is_known: bool) -> Arg {
    let shown =
        arg.get_value_names().into_iter().flatten().map(AsRef::as_ref).collect::<Vec<&str>>().join(" ");
    let profile = profile.to_owned();
    if arg.get_id() == "profile" {
        return arg.add(ArgValueCandidates::new(clusters));
    }
    let words: Vec<_> = shown.split(|c: char| !c.is_ascii_uppercase()).collect();
    if words.contains(&"DIGEST") {
        return arg.add(ArgValueCandidates::new(bundles));
    }
    let is_node = words.contains(&"NODE") || words.contains(&"NAME") && is_node_argument(&arg);
    if is_node && is_known { arg.add(ArgValueCandidates::new(move || nodes(&profile))) } else { arg }
}

/// `NAME` also stands for names of other things.
fn is_node_argument(arg: &Arg) -> bool {
    ["name", "names", "node", "nodes"].contains(&arg.get_id().as_str())
}

fn store() -> ClusterStore {
    ClusterStore::new(&Settings::from_environment().home)
}

fn candidates(names: impl IntoIterator<Item = impl Into<OsString>>) -> Vec<CompletionCandidate> {
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn clusters() -> Vec<CompletionCandidate> {
    candidates(store().names().unwrap_or_default().iter().map(ToString::to_string))
}

/// By their short names.
fn nodes(profile: &str) -> Vec<CompletionCandidate> {
    let name = profile.parse::<ClusterName>().ok();
    let cluster = name.and_then(|name| store().load(&name).ok().flatten());
    let nodes = cluster
        .iter()
        .flat_map(|cluster| cluster.spec.nodes.iter().map(|node| node.name.short(cluster.name()).to_owned()));
    candidates(nodes)
}

fn bundles() -> Vec<CompletionCandidate> {
    let wiring = Wiring::real(&Settings::from_environment()).ok();
    let listed = wiring.and_then(|wiring| wiring.bundles.list().ok()).unwrap_or_default();
    candidates(listed.bundles.into_iter().map(|bundle| bundle.kubernetes))
}

/// The cluster that the unfinished line is about.
fn profile_in(arguments: &[OsString]) -> String {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let is_flag = |word: &str| ["-p", "--profile"].contains(&word);
    let apart = words.windows(2).find(|pair| is_flag(&pair[0])).map(|pair| pair[1].clone().into_owned());
    let joined = || words.iter().find_map(|word| word.strip_prefix("--profile=").map(str::to_owned));
    apart
        .or_else(joined)
        .or_else(|| profile::selected(&Settings::from_environment()))
        .unwrap_or_else(|| DEFAULT_CLUSTER.to_owned())
}
