//! Headings of the help, and where `-p` is offered: tables over the clap types, which have no place for them.

use std::fmt::Write;

use clap::{Arg, Command};
use flotilla_core::explain::ABOUT_NO_CLUSTER;

/// The commands, in the order of the help.
const COMMANDS: [(&str, &[&str]); 7] = [
    ("Clusters", &["start", "status", "list", "stop", "delete", "pause", "unpause", "profile", "get"]),
    ("Nodes", &["node", "ssh", "cp", "ip"]),
    ("Cluster file", &["apply", "diff", "export", "schema"]),
    ("Access and logs", &["kubectl", "update-context", "logs"]),
    ("etcd", &["etcd", "recover"]),
    ("Bundles", &["bundle"]),
    ("Other", &["doctor", "version", "completion", "help"]),
];

/// Flags of `start`. All others are under "Options".
const START: [(&str, &[&str]); 5] = [
    (
        "Nodes",
        &[
            "nodes",
            "control_planes",
            "ha",
            "taint_control_planes",
            "cpus",
            "memory",
            "disk_size",
            "driver",
            "isolation",
            "mount",
            "port",
        ],
    ),
    (
        "Kubernetes",
        &[
            "kubernetes_version",
            "container_runtime",
            "extra_config",
            "feature_gates",
            "apiserver_port",
            "apiserver_names",
            "apiserver_ips",
            "certificate_authority",
        ],
    ),
    (
        "Network",
        &["subnet", "pod_subnet", "node_pod_prefix", "cni", "service_cluster_ip_range", "dns_domain"],
    ),
    ("Waiting", &["wait", "wait_timeout", "no_wait_lock"]),
    ("Behaviour", &["dry_run", "force", "yes"]),
];

/// All commands with headings.
pub(super) fn applied(command: Command) -> Command {
    let profile = command.get_arguments().find(|arg| arg.get_id() == "profile").cloned();
    let hidden = profile.map(|profile| profile.hide(true));
    let command = command.mut_subcommands(|sub| match sub.get_name() {
        "start" => sub.mut_args(under_heading),
        // They accept `-p`, since it may stand in front of any command, but do not offer it.
        name if ABOUT_NO_CLUSTER.contains(&name) => sub.args(hidden.clone()),
        _ => sub,
    });
    let template = template(&command);
    command.help_template(template)
}

fn under_heading(arg: Arg) -> Arg {
    let heading = START.iter().find(|(_, ids)| ids.contains(&arg.get_id().as_str()));
    match heading {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

/// The help of the program itself. clap lists all commands under one heading.
fn template(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    let width =
        COMMANDS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    for (heading, names) in COMMANDS {
        let _ = write!(text, "\n{header}{heading}:{header:#}\n");
        for name in names {
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {}", about(command, name));
        }
    }
    text + &format!("\n{header}Global options:{header:#}\n{{options}}{{after-help}}")
}

fn about(command: &Command, name: &str) -> String {
    // clap adds it later.
    if name == "help" {
        return "Print this message or the help of a command".to_owned();
    }
    let sub = command.find_subcommand(name);
    let about = sub.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
    let aliases: Vec<&str> = sub.into_iter().flat_map(Command::get_visible_aliases).collect();
    match aliases[..] {
        [] => about,
        [alias] => format!("{about} [alias: {alias}]"),
        _ => format!("{about} [aliases: {}]", aliases.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_has_one_heading() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name);
        let mut known: Vec<&str> = visible.chain(["help"]).collect();
        let mut listed: Vec<&str> = COMMANDS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn every_flag_and_command_of_the_tables_exists() {
        let command = Cli::command();
        let start = command.find_subcommand("start").unwrap();
        for id in START.iter().flat_map(|(_, ids)| *ids) {
            assert!(start.get_arguments().any(|arg| arg.get_id() == id), "start has no {id}");
        }
        for name in ABOUT_NO_CLUSTER {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }

    /// A new flag of `start` gets a heading.
    #[test]
    fn few_flags_of_start_are_under_options() {
        let command = crate::args::command();
        let start = command.find_subcommand("start").unwrap();
        let shown =
            start.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_help_heading().is_none());
        let names: Vec<&str> = shown.map(|arg| arg.get_id().as_str()).collect();
        assert_eq!(names, ["file", "output"]);
    }

    #[test]
    fn the_cluster_is_offered_where_it_has_an_effect() {
        let mut command = crate::args::command();
        command.build();
        let help = |path: &[&str]| {
            let sub = path.iter().fold(&command, |command, name| command.find_subcommand(name).unwrap());
            sub.clone().render_long_help().to_string()
        };
        for path in [&["start"][..], &["node", "list"], &["etcd", "snapshot", "save"], &["kubectl"]] {
            assert!(help(path).contains("--profile"), "{path:?}");
        }
        for path in [&["list"][..], &["doctor"], &["bundle"], &["bundle", "list"], &["profile", "list"]] {
            assert!(!help(path).contains("--profile"), "{path:?}: {}", help(path));
        }
    }
}
