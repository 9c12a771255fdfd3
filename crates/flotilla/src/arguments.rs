//! The command line as minikube's scripts write it, turned into one that clap reads: under another program name, with empty
//! words, with `--flag=true` and `--flag=false`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use flotilla_core::explain::DEFAULT_CLUSTER;

/// The name under which the program was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Flotilla,
    Minikube,
    Kubectl,
}

impl CalledAs {
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        let program = arguments.first().and_then(|path| Path::new(path).file_name());
        match program.unwrap_or_default().to_string_lossy() {
            name if name == "kubectl" => Self::Kubectl,
            // Releases of minikube are named `minikube-linux-amd64`.
            name if name == "minikube" || name.starts_with("minikube-") => Self::Minikube,
            _ => Self::Flotilla,
        }
    }

    /// The cluster of commands that name none.
    pub(crate) fn default_cluster(self) -> &'static str {
        match self {
            Self::Minikube => "minikube",
            Self::Flotilla | Self::Kubectl => DEFAULT_CLUSTER,
        }
    }
}

/// A command line that means the same under the program's own name, for hints that repeat it: `typed` is how it was typed, `read`
/// is what clap read, and `named` says whether it names a cluster.
pub(crate) fn under_own_name(
    called_as: CalledAs,
    typed: &[OsString],
    read: &[OsString],
    named: bool,
) -> Vec<OsString> {
    match called_as {
        CalledAs::Kubectl => read.to_vec(),
        CalledAs::Minikube if !named => {
            let flag = ["-p", called_as.default_cluster()].map(OsString::from);
            typed.iter().take(1).cloned().chain(flag).chain(typed.iter().skip(1).cloned()).collect()
        }
        CalledAs::Minikube | CalledAs::Flotilla => typed.to_vec(),
    }
}

/// The arguments of `kubectl …` as those of `flotilla kubectl -- …`. The context is the cluster, as its kubeconfig names it.
pub(crate) fn of_kubectl(arguments: &[OsString]) -> Vec<OsString> {
    let own = arguments.get(1..).unwrap_or_default();
    let mut words: Vec<OsString> = vec!["flotilla".into(), "kubectl".into()];
    if let Some(context) = context(own) {
        words.extend(["--profile".into(), context]);
    }
    words.push("--".into());
    words.extend(own.iter().cloned());
    words
}

fn context(words: &[OsString]) -> Option<OsString> {
    // What stands behind `--` is for a program in a pod.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let own = &words[..end];
    let apart = own.windows(2).find(|pair| pair[0] == "--context").map(|pair| pair[1].clone());
    let joined = || own.iter().find_map(|word| word.to_str()?.strip_prefix("--context=").map(OsString::from));
    // An empty name is for kubectl none as well.
    apart.or_else(joined).filter(|context| !context.is_empty())
}

/// Leaves out empty words, and says whether a flag is given: `--flag=true` is `--flag`, `--flag=false` is nothing. Values, and
/// words for another program, stay as they are.
pub(crate) fn normalised(arguments: &[OsString], mut program: Command) -> Vec<OsString> {
    program.build();
    let mut command = &program;
    let mut words = arguments.iter();
    let mut kept: Vec<OsString> = words.next().cloned().into_iter().collect();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--" {
            kept.push(word.clone());
            break;
        }
        if let Some(flag) = text.strip_prefix("--") {
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            match long(command, name) {
                Some(arg) if is_switch(arg) && value.is_some_and(is_true) => {
                    kept.push(format!("--{name}").into());
                }
                Some(arg) if is_switch(arg) && value.is_some_and(is_false) => {}
                Some(arg) if value.is_none() && needs_next(arg) => {
                    kept.push(word.clone());
                    kept.extend(words.next().cloned());
                }
                _ => kept.push(word.clone()),
            }
        } else if text.len() > 1 && text.starts_with('-') {
            kept.push(word.clone());
            if ends_with_flag_of_value(command, &text) {
                kept.extend(words.next().cloned());
            }
        } else if !text.is_empty() {
            kept.push(word.clone());
            match command.find_subcommand(OsStr::new(text.as_ref())) {
                Some(below) => command = below,
                None if command.get_arguments().any(Arg::is_trailing_var_arg_set) => break,
                None => {}
            }
        }
    }
    kept.extend(words.cloned());
    kept
}

fn long<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let has_alias = |arg: &Arg| arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name));
    command.get_arguments().find(|arg| arg.get_long() == Some(name) || has_alias(arg))
}

/// `-n`, whose value is the next word; not `-n5`.
fn ends_with_flag_of_value(command: &Command, word: &str) -> bool {
    let short = |letter| command.get_arguments().find(|arg| arg.get_short() == Some(letter));
    let mut letters = word.chars().skip(1);
    let takes_value = letters.by_ref().find_map(|letter| short(letter).filter(|arg| needs_next(arg)));
    takes_value.is_some() && letters.next().is_none()
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

fn needs_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// As Go's flags read it.
fn is_true(value: &str) -> bool {
    ["true", "1", "t", "T", "TRUE", "True"].contains(&value)
}

fn is_false(value: &str) -> bool {
    ["false", "0", "f", "F", "FALSE", "False"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        // `''` is how an empty word is typed.
        line.split(' ').map(|word| if word == "''" { OsString::new() } else { word.into() }).collect()
    }

    fn read(line: &str) -> String {
        let read = normalised(&words(line), crate::command());
        read.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn empty_words_are_left_out_where_they_are_no_values() {
        assert_eq!(read("flotilla start '' --ha '' -p demo ''"), "flotilla start --ha -p demo");
        assert_eq!(read("flotilla start --profile ''"), "flotilla start --profile ");
        assert_eq!(read("flotilla stop -p ''"), "flotilla stop -p ");
        assert_eq!(read("flotilla ssh -- echo ''"), "flotilla ssh -- echo ");
        assert_eq!(read("flotilla kubectl create ''"), "flotilla kubectl create ");
    }

    #[test]
    fn switches_take_true_and_false() {
        assert_eq!(read("flotilla start --ha=true --dry-run=false"), "flotilla start --ha");
        assert_eq!(read("flotilla --alsologtostderr=false stop --all=TRUE"), "flotilla stop --all");
        // Not ours to read: a value, a flag of kubectl, a flag that does not exist.
        assert_eq!(read("flotilla start --wait=true"), "flotilla start --wait=true");
        assert_eq!(read("flotilla kubectl get pods --watch=true"), "flotilla kubectl get pods --watch=true");
        assert_eq!(read("flotilla stop --nothing=true"), "flotilla stop --nothing=true");
        assert_eq!(read("flotilla start --ha=perhaps"), "flotilla start --ha=perhaps");
    }

    #[test]
    fn the_name_of_the_program_says_what_it_is() {
        let called = |program: &str| CalledAs::of(&words(program));
        assert_eq!(called("/usr/bin/minikube-linux-amd64"), CalledAs::Minikube);
        assert_eq!(called("./minikube").default_cluster(), "minikube");
        assert_eq!((called("/tmp/x/kubectl"), called("flotilla")), (CalledAs::Kubectl, CalledAs::Flotilla));
        assert_eq!(CalledAs::of(&[]), CalledAs::Flotilla);
    }

    #[test]
    fn kubectl_is_about_the_cluster_of_its_context() {
        let of = |line: &str| of_kubectl(&words(line)).join(OsStr::new(" ")).into_string().unwrap();
        assert_eq!(of("kubectl get pods"), "flotilla kubectl -- get pods");
        let context = "flotilla kubectl --profile demo --";
        assert_eq!(of("kubectl --context demo get pods"), format!("{context} --context demo get pods"));
        assert_eq!(of("kubectl get pods --context=demo"), format!("{context} get pods --context=demo"));
        assert_eq!(of("kubectl --context= get pods"), "flotilla kubectl -- --context= get pods");
        assert_eq!(of("kubectl exec a -- b --context c"), "flotilla kubectl -- exec a -- b --context c");
    }
}
