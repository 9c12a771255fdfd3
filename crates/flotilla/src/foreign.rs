//! Words of other tools: what people type who know minikube, kind, k3d or kubectl, and what to type here.
//!
//! The rows are data. They are read when clap refuses a command line, before its error is printed, and they make the
//! pages docs/start/from-*.md.

mod k3d;
mod kind;
mod kubectl;
mod minikube;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;
mod typed;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use flotilla_core::explain::{DEFAULT_CLUSTER, about, named};

use typed::{Token, Typed};

/// One thing that another tool has under another name, or that flotilla does not have.
#[derive(Debug)]
struct Row {
    /// What is typed there. `<…>` is an example of a value; `--agents/-a` are two names of one flag.
    typed: &'static str,
    /// Why flotilla does not have it, or how it differs. Empty if only the name differs.
    why: &'static str,
    /// What to type here, line by line. Empty if `why` says what to do.
    here: &'static [&'static str],
}

const fn row(typed: &'static str, why: &'static str, here: &'static [&'static str]) -> Row {
    Row { typed, why, here }
}

/// All rows. A row of an earlier table wins over an equally specific row of a later one.
const TABLES: [&[Row]; 4] = [minikube::ROWS, kind::ROWS, k3d::ROWS, kubectl::ROWS];

/// The answer to a command line that another tool accepts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

/// What to type instead of a command line that clap refused with this error. None if no row knows it. `default` is the
/// cluster of commands that name none.
pub(crate) fn answer(
    error: &clap::Error,
    arguments: &[OsString],
    commands: &clap::Command,
    default: &str,
) -> Option<Answer> {
    let refused = refused_word(error)?;
    let typed = Typed::read(arguments, commands, &flags_with_values());
    let rows = TABLES.into_iter().flatten();
    let matching = rows.filter_map(|row| Some((row.rank(&typed, &refused)?, row)));
    // The first of the most specific rows.
    let best = matching.reduce(|best, other| if other.0 > best.0 { other } else { best });
    best.map(|(_, row)| row.answer(&typed, default))
}

/// The command, flag or argument that clap did not accept.
fn refused_word(error: &clap::Error) -> Option<String> {
    let context = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        // A flag of ours without its value, such as minikube's `--mount`, is an invalid value.
        ErrorKind::UnknownArgument | ErrorKind::InvalidValue => ContextKind::InvalidArg,
        _ => return None,
    };
    match error.get(context)? {
        // A flag is named with its value: `--mount <SRC:DST>`.
        ContextValue::String(word) => {
            word.split([' ', '=']).next().filter(|word| !word.is_empty()).map(str::to_owned)
        }
        _ => None,
    }
}

/// The flags of all rows that have a value.
fn flags_with_values() -> Vec<&'static str> {
    let rows = TABLES.into_iter().flatten();
    rows.flat_map(Row::tokens)
        .filter_map(|token| match token {
            Token::Flag { names, value: Some(_) } => Some(names.split('/')),
            _ => None,
        })
        .flatten()
        .collect()
}

impl Row {
    fn tokens(&self) -> Vec<Token> {
        typed::tokens(self.typed)
    }

    /// How specific the row is, if it is about what was typed and about the word that was refused.
    fn rank(&self, typed: &Typed, refused: &str) -> Option<usize> {
        let tokens = self.tokens();
        let mut words = typed.words.iter();
        let mut is_about_refused = false;
        for token in &tokens {
            match token {
                Token::Word(word) => {
                    words.next().filter(|typed| *typed == word)?;
                    is_about_refused |= refused == *word;
                }
                Token::Example(example) => {
                    let word = words.next().filter(|word| !is_archive(example) || is_archive(word))?;
                    is_about_refused |= word == refused;
                }
                Token::Flag { names, .. } => {
                    typed.flag(names)?;
                    is_about_refused |= names.split('/').any(|name| name == refused);
                }
            }
        }
        // A word that is named is more specific than any word, and so is an archive.
        let is_any = |token: &Token| matches!(token, Token::Example(example) if !is_archive(example));
        let rank = tokens.iter().map(|token| if is_any(token) { 1 } else { 2 }).sum();
        is_about_refused.then_some(rank)
    }

    /// Its words and flags, as they were typed, without values of flags, and without the flag that flotilla has, too.
    fn name(&self, typed: &Typed) -> String {
        let tokens = self.tokens();
        let is_flag = |token: &Token| matches!(token, Token::Flag { .. });
        let count = tokens.iter().filter(|token| !is_flag(token)).count();
        let flags = tokens.iter().filter_map(|token| match token {
            Token::Flag { names, .. } if *names != PROFILE => Some(typed.flag(names)?.0.as_str()),
            Token::Flag { .. } | Token::Word(_) | Token::Example(_) => None,
        });
        typed.words.iter().take(count).map(String::as_str).chain(flags).collect::<Vec<_>>().join(" ")
    }

    /// Examples of the row, and what was typed in their place. Only what a shell reads as one word, and numbers only for
    /// numbers that mean the same here.
    fn values<'a>(&self, typed: &'a Typed) -> Vec<(&'static str, &'a str)> {
        let mut words = typed.words.iter();
        let pairs = self.tokens().into_iter().filter_map(|token| match token {
            Token::Word(_) => words.next().and(None),
            Token::Example(example) => Some((example, words.next()?.as_str())),
            Token::Flag { names, value } => Some((value?, typed.flag(names)?.1.as_deref()?)),
        });
        let counts_workers = self.counts_workers();
        let means_the_same = |(example, given): &(&str, &str)| {
            if is_number(example) { is_number(given) && !counts_workers } else { is_word(given) }
        };
        pairs.filter(means_the_same).collect()
    }

    /// Whether it counts workers: here all nodes are counted.
    fn counts_workers(&self) -> bool {
        let is_count =
            |token: &Token| matches!(token, Token::Flag { names, .. } if names.contains("--agents"));
        self.tokens().iter().any(is_count)
    }

    fn answer(&self, typed: &Typed, default: &str) -> Answer {
        let name = self.name(typed);
        let message = if self.why.is_empty() {
            format!("flotilla has no `{name}`")
        } else {
            format!("flotilla has no `{name}`: {}", self.why)
        };
        let given = typed.cluster();
        let mut values = self.values(typed);
        // A row without a name of its own has an example for it.
        if let Some(given) = given.as_ref().filter(|_| !self.tokens().iter().any(is_name)) {
            values.push((NAME, given.as_ref()));
        }
        let cluster = given.clone().or_else(|| default.parse().ok());
        let node = cluster.as_ref().map(|cluster| format!("{cluster}-m02"));
        values.extend(node.as_deref().map(|node| (NODE, node)));
        let hints = self.here.iter().map(|line| {
            let hint = format!("type `{}`", with_values(line, &values));
            match &cluster {
                // Without its name a command would be about another one.
                Some(cluster) if default != DEFAULT_CLUSTER => named(cluster, &hint),
                Some(cluster) => about(cluster, &hint),
                None => hint,
            }
        });
        Answer { message, hints: hints.collect() }
    }
}

/// The flag for the name of a cluster.
const PROFILE: &str = "--profile/-p";

/// The example of a cluster's name in the rows.
const NAME: &str = "demo";

/// A worker of the default cluster, as Kubernetes names it.
const NODE: &str = "flotilla-m02";

fn is_name(token: &Token) -> bool {
    matches!(token, Token::Example(NAME) | Token::Flag { value: Some(NAME), .. })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_./:".contains(char))
}

/// An example of an archive stands for archives only.
fn is_archive(text: &str) -> bool {
    text.strip_suffix(".tar").is_some_and(|name| !name.is_empty())
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

/// A line with what was typed instead of its examples.
fn with_values(line: &str, values: &[(&str, &str)]) -> String {
    let words = line.split(' ').map(|word| {
        let given = values.iter().find(|(example, _)| *example == word);
        given.map_or(word, |(_, given)| given)
    });
    words.collect::<Vec<_>>().join(" ")
}
