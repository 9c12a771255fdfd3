//! A command line as words and flags, whichever tool it is for.

use std::ffi::OsString;

use clap::{Arg, Command};
use flotilla_spec::ClusterName;

/// One part of what a row has in `typed`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(&'static str),
    /// `<demo>`: any word.
    Example(&'static str),
    /// All names of a flag, with `/` between them, and an example of its value.
    Flag {
        names: &'static str,
        value: Option<&'static str>,
    },
}

/// The parts of a row's `typed`. The example behind a flag is its value.
pub(super) fn tokens(typed: &'static str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut words = typed.split(' ').peekable();
    while let Some(word) = words.next() {
        tokens.push(if let Some(example) = example(word) {
            Token::Example(example)
        } else if word.starts_with('-') {
            let value = words.next_if(|next| example(next).is_some()).and_then(example);
            Token::Flag { names: word, value }
        } else {
            Token::Word(word)
        });
    }
    tokens
}

fn example(word: &'static str) -> Option<&'static str> {
    word.strip_prefix('<')?.strip_suffix('>')
}

/// What somebody typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) words: Vec<String>,
    /// Names of flags, with their dashes, and values.
    pub(super) flags: Vec<(String, Option<String>)>,
}

impl Typed {
    /// `foreign_flags` are flags that flotilla does not have and that are followed by a value.
    pub(super) fn read(arguments: &[OsString], commands: &Command, foreign_flags: &[&str]) -> Self {
        let mut typed = Self::default();
        // Words after `--` are for another program.
        let own = arguments.iter().skip(1).map(|word| word.to_string_lossy()).take_while(|word| word != "--");
        let mut own = own.peekable();
        while let Some(word) = own.next() {
            if !word.starts_with('-') || word == "-" {
                typed.words.push(word.into_owned());
                continue;
            }
            let flag = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None if foreign_flags.contains(&word.as_ref()) || has_value(commands, &word) => {
                    let value = own.next_if(|next| !next.starts_with('-'));
                    (word.into_owned(), value.map(Into::into))
                }
                None => (word.into_owned(), None),
            };
            typed.flags.push(flag);
        }
        typed
    }

    /// A flag by any of its names, with its value.
    pub(super) fn flag(&self, names: &str) -> Option<&(String, Option<String>)> {
        self.flags.iter().find(|(typed, _)| names.split('/').any(|name| name == typed))
    }

    /// The cluster, however the tools name it. `-p` of k3d is a port.
    pub(super) fn cluster(&self) -> Option<ClusterName> {
        self.cluster_of_minikube().or_else(|| self.cluster_of_others()?.parse().ok())
    }

    /// As kind and k3d name it: a flag, or the word behind `cluster create` and the like.
    fn cluster_of_others(&self) -> Option<&str> {
        let flag = |names: &str| self.flag(names)?.1.as_deref();
        match self.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["cluster", _, name, ..] => Some(name),
            ["node", "create", ..] | ["image", "import", ..] => flag("--cluster/-c"),
            ["create" | "delete" | "export" | "get" | "load", _, ..] => flag("--name/-n"),
            _ => None,
        }
    }

    fn cluster_of_minikube(&self) -> Option<ClusterName> {
        let name = |(flag, value): &(String, Option<String>)| match value {
            Some(value) if ["-p", "--profile"].contains(&flag.as_str()) => value.parse().ok(),
            None => flag.strip_prefix("-p")?.parse().ok(),
            Some(_) => None,
        };
        self.flags.iter().find_map(name)
    }
}

/// Whether any of our commands has this flag with a value.
fn has_value(command: &Command, flag: &str) -> bool {
    let is_it = |arg: &Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => arg.get_short().is_some_and(|short| flag == format!("-{short}")),
    };
    let here = command.get_arguments().any(|arg| is_it(arg) && arg.get_action().takes_values());
    here || command.get_subcommands().any(|command| has_value(command, flag))
}
