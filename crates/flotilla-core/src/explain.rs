//! What the screen needs to know about an error beyond its text.

use std::error::Error;

use flotilla_spec::ClusterName;
use flotilla_spec::error::{SpecError, SpecErrorKind};

/// A stable name for a kind of failure, `AREA_WHAT`, and the exit status that goes with it.
///
/// Exit statuses follow minikube's scheme, because people have scripts: tens by layer (10 program, 20 resources,
/// 30 host, 40 internet, 50 driver, 70 network, 80 guest), ones by kind (0 error, 1 conflict, 2 time-out, 4 usage,
/// 5 not found, 6 unsupported, 7 permission, 8 configuration, 9 unavailable).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub exit_status: u8,
}

/// The name of the failure that a user asked for with Ctrl-C.
pub const INTERRUPTED: &str = "INTERRUPTED";

/// Matched on the type once, in the crate that owns it; the binary has the one renderer.
pub trait Explain: Error {
    fn code(&self) -> Code;

    /// What the user can do about it, one sentence each.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lines that belong to the error: the end of a program's output, the files that are damaged.
    fn details(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An error and its causes, outermost first. A cause that an error before it has in its text is left out.
pub fn chain(error: &(impl Error + ?Sized)) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !chain.iter().any(|before| before.contains(&text)) {
            chain.push(text);
        }
        source = cause.source();
    }
    chain
}

/// An error and its causes in one line.
pub fn one_line(error: &(impl Error + ?Sized)) -> String {
    chain(error).join(": ")
}

impl Explain for SpecError {
    /// minikube's codes for the same mistakes.
    fn code(&self) -> Code {
        let (name, exit_status) = match self.kind() {
            SpecErrorKind::Usage => ("MK_USAGE", 14),
            SpecErrorKind::Memory => ("RSRC_INSUFFICIENT_REQ_MEMORY", 23),
            SpecErrorKind::Cores => ("RSRC_INSUFFICIENT_CORES", 29),
            SpecErrorKind::Disk => ("RSRC_INSUFFICIENT_STORAGE", 26),
            SpecErrorKind::Config => ("MK_CONFIG", 18),
            SpecErrorKind::Named(name, exit_status) => (name, exit_status),
        };
        Code { name, exit_status }
    }

    fn hints(&self) -> Vec<String> {
        self.hint().into_iter().collect()
    }
}

/// The name of a cluster when none is given.
pub const DEFAULT_CLUSTER: &str = "flotilla";

/// What a command in a hint needs so that it is about this cluster: ` -p NAME`, or nothing for the default one.
pub fn profile_flag(name: &ClusterName) -> String {
    if name.as_ref() == DEFAULT_CLUSTER { String::new() } else { format!(" -p {name}") }
}

/// What comes before a command that needs root, so that it has the user's state directory, kubeconfig, programs and way to
/// the network. `scripts/as-root` keeps the same variables.
pub const AS_ROOT: &str = "sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,\
                           HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy";

/// Stands for the command that was typed: only the screen knows it.
const TYPED: &str = "flotilla …";

/// The hint for a command that needs root.
pub fn run_as_root() -> String {
    format!("run it as root and keep your environment: `{AS_ROOT} {TYPED}`")
}

/// A text for people in which [`run_as_root`] has the command that was typed, so that it can be pasted.
pub fn with_typed(text: &str, command: &str) -> String {
    text.replace(&format!("`{AS_ROOT} {TYPED}`"), &format!("`{AS_ROOT} {command}`"))
}

/// Commands that are about no cluster.
pub const ABOUT_NO_CLUSTER: [&str; 8] =
    ["bundle", "doctor", "schema", "version", "completion", "list", "profile", "get"];

/// A text for people in which every `flotilla …` is about this cluster. Without a name it would be about the default one:
/// not what somebody who deletes something wants.
pub fn about(name: &ClusterName, text: &str) -> String {
    if name.as_ref() == DEFAULT_CLUSTER { text.to_owned() } else { named(name, text) }
}

/// The same also for the default cluster: for a user whose commands without a name are about another one.
pub fn named(name: &ClusterName, text: &str) -> String {
    // Every second part stands between backticks.
    let parts = text
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { line_named(name, part) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

/// What stands between the commands in a line for a shell.
const BETWEEN_COMMANDS: [&str; 7] = [" | ", " && ", " > ", " < ", "; ", "$(", ")"];

/// A line for a shell, of several commands perhaps: `sleep 5m && flotilla stop`.
fn line_named(name: &ClusterName, line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    loop {
        let separators =
            BETWEEN_COMMANDS.iter().filter_map(|between| Some((rest.find(between)?, between.len())));
        let Some((start, length)) = separators.min() else {
            return text + &command_named(name, rest);
        };
        text += &command_named(name, &rest[..start]);
        text += &rest[start..start + length];
        rest = &rest[start + length..];
    }
}

fn command_named(name: &ClusterName, command: &str) -> String {
    // Variables may be set for it.
    let variables = command.split_inclusive(' ').take_while(|word| word.contains('=')).map(str::len).sum();
    match command[variables..].strip_prefix("flotilla ") {
        Some(own) if lacks_cluster(own) => {
            let (own, passed_on) = command.split_at(end_of_own_words(command));
            format!("{own} -p {name}{passed_on}")
        }
        _ => command.to_owned(),
    }
}

/// Where the words end that flotilla reads itself.
fn end_of_own_words(command: &str) -> usize {
    // All words behind `ssh` may be for the node.
    let behind_ssh = || command.find("flotilla ssh").map(|start| start + "flotilla ssh".len());
    command.find(" -- ").or_else(behind_ssh).unwrap_or(command.len())
}

/// A file has its cluster's name in it.
fn lacks_cluster(command: &str) -> bool {
    let mut words = command.split(' ').take_while(|word| *word != "--");
    let is_about_any = words.next().is_some_and(|word| !ABOUT_NO_CLUSTER.contains(&word));
    is_about_any && !words.any(|word| ["-p", "-f", "--all", "--help"].contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn a_cause_that_was_said_already_is_left_out() {
        let link = |text, source: Option<Link>| Link { text, source: source.map(Box::new) };
        let disk = link("no space left on device", None);
        let write = link("cannot write: no space left on device", Some(disk));
        let save = link("cannot save", Some(link("cannot save", Some(write))));
        assert_eq!(one_line(&save), "cannot save: cannot write: no space left on device");
    }

    #[test]
    fn the_hint_for_root_has_the_command_that_was_typed() {
        let hint = with_typed(&run_as_root(), "/usr/bin/flotilla start -p demo");
        assert_eq!(
            hint,
            format!("run it as root and keep your environment: `{AS_ROOT} /usr/bin/flotilla start -p demo`")
        );
        assert_eq!(with_typed("`flotilla …`", "x"), "`flotilla …`");
    }

    #[test]
    fn commands_are_about_the_cluster_that_the_text_is_about() {
        let demo = |text: &str| about(&"demo".parse().unwrap(), text);
        insta::assert_snapshot!(demo("`flotilla delete` and `flotilla node add`"), @"`flotilla delete -p demo` and `flotilla node add -p demo`");
        insta::assert_snapshot!(demo("`flotilla ssh -- crictl ps -p x`"), @"`flotilla ssh -p demo -- crictl ps -p x`");
        for (text, about_demo) in [
            ("`sleep 5m && flotilla stop`", "`sleep 5m && flotilla stop -p demo`"),
            ("`curl http://$(flotilla ip):80`", "`curl http://$(flotilla ip -p demo):80`"),
            ("`cat a | flotilla ssh -- tar x`", "`cat a | flotilla ssh -p demo -- tar x`"),
            ("`flotilla export > x`", "`flotilla export -p demo > x`"),
            ("`KUBECONFIG=x flotilla start`", "`KUBECONFIG=x flotilla start -p demo`"),
            // Behind the node, the flag would be for the command in the node.
            ("`flotilla ssh m02`", "`flotilla ssh -p demo m02`"),
            ("`flotilla ssh 'a | b'`", "`flotilla ssh -p demo 'a | b'`"),
            (
                "`flotilla node add --isolation user|none`",
                "`flotilla node add --isolation user|none -p demo`",
            ),
        ] {
            assert_eq!(demo(text), about_demo);
        }
        for text in [
            "`flotilla delete -p other`",
            "`flotilla delete --all`",
            "`flotilla apply -f FILE`",
            "`flotilla bundle list`",
            "`flotilla doctor`",
            "`flotilla start --help`",
            "`sudo /opt/flotilla start`",
            "`modprobe overlay`, flotilla start",
            "an odd one: `",
        ] {
            assert_eq!(demo(text), text);
        }
        let default = DEFAULT_CLUSTER.parse().unwrap();
        assert_eq!(about(&default, "`flotilla delete`"), "`flotilla delete`");
        assert_eq!(named(&default, "`flotilla delete`"), "`flotilla delete -p flotilla`");
    }
}
