//! Packet rules, through the program `nft`.
//!
//! The kernel's rules are those of the calling thread's network namespace. Ours are in tables of our own, whose text
//! [`host_table`], [`forward_table`] and [`source_table`] write. In tables of others only single rules are put, each with a comment that
//! tells it is ours; nothing else of theirs is touched.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::host::{Command, CommandError};
use crate::net::Changed;

mod forwards;
mod listing;
mod pass;
mod sources;
mod tables;
mod verdict;

pub use forwards::{Forward, Forwards, forward_table};
pub use listing::Chain;
pub use pass::{Pass, Refusals};
pub use sources::{Others, SOURCE_FAMILY, SourceRules, Sources, source_table};
pub use tables::{HostRules, host_table};

use listing::Listing;

/// The rules could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    #[error("cannot hand rules to nft")]
    Input { source: io::Error },
    #[error("cannot change the packet rules")]
    Apply { source: CommandError },
    /// `what` is `tables`, `chains` or `ruleset`, as nft calls it.
    #[error("cannot list the packet filter's {what}")]
    List { what: &'static str, source: CommandError },
    #[error("cannot understand nft's list of the packet filter's {what}")]
    Parse { what: &'static str, source: serde_json::Error },
}

/// The program that reads and changes packet rules.
#[derive(Debug, Clone)]
pub struct Nft {
    root: Option<PathBuf>,
}

/// The kernel takes 128 KiB (`MAX_ARG_STRLEN`).
const LONGEST_ARGUMENT: usize = 128 << 10;

impl Nft {
    /// The nft of PATH.
    pub fn on_host() -> Self {
        Self { root: None }
    }

    /// The nft of a bundle's root: hosts may have none, or an old one that crashes on newer rules.
    pub fn in_root(root: &Path) -> Self {
        Self { root: Some(root.to_owned()) }
    }

    /// Applies rules in nft's language: all of them or none.
    pub fn apply(&self, ruleset: &str) -> Result<(), NftError> {
        // As an argument: for its standard input nft 1.0.9 opens /dev/stdin, which a bundle's root does not have.
        let applied = if ruleset.len() < LONGEST_ARGUMENT {
            self.command().arg(ruleset).shown_as(&["nft", "-f", "-"].map(str::to_owned)).run()
        } else {
            let input = text_file(ruleset).map_err(|source| NftError::Input { source })?;
            self.command().args(["-f", "-"]).stdin(input).run()
        };
        applied.map(drop).map_err(|source| NftError::Apply { source })
    }

    /// Deletes a table with all in it. One that does not exist is a success.
    pub fn delete_table(&self, family: &str, name: &str) -> Result<(), NftError> {
        self.apply(&tables::deletion(family, name))
    }

    pub fn table_exists(&self, family: &str, name: &str) -> Result<bool, NftError> {
        Ok(self.list("tables")?.has_table(family, name))
    }

    /// Whether a cluster's table exists and has all the rules of [`host_table`].
    pub fn has_host_table(&self, rules: &HostRules) -> Result<bool, NftError> {
        let count = tables::count_rules(&host_table(rules));
        Ok(self.list("ruleset")?.has_rules("ip", &rules.table, count, &tables::fingerprint(rules)))
    }

    /// Whether the table of [`source_table`] is there and has all its rules.
    pub fn has_source_table(&self, rules: &SourceRules) -> Result<bool, NftError> {
        let (count, fingerprint) = (tables::count_rules(&source_table(rules)), sources::fingerprint(rules));
        Ok(self.list("ruleset")?.has_rules(SOURCE_FAMILY, &rules.table, count, &fingerprint))
    }

    /// The chains of others that refuse what they do not know: by their policy, or by a rule at their end.
    ///
    /// No table of ours can overrule them: a packet has to be accepted in all of them. See [`Self::let_pass`].
    pub fn refusals(&self) -> Result<Refusals, NftError> {
        Ok(Refusals::of(&self.list("ruleset")?))
    }

    /// Lets the chains of [`Self::refusals`] accept what a cluster needs, and takes rules of ours away where they are of
    /// no use any more. Tables that are owned by a running program stay as they are.
    ///
    /// The rules go to the top of `DOCKER-USER` if that is in the same table, else of the chain itself. The tag
    /// becomes their comment, by which [`Self::remove_tagged`] finds them.
    pub fn let_pass(&self, pass: &Pass<'_>) -> Result<Changed, NftError> {
        let listing = self.list("ruleset")?;
        let wanted = pass.wanted(&listing);
        if pass.is_right(&listing, &wanted) {
            return Ok(Changed::No);
        }
        let old = listing.tagged(pass.tag, pass.bridge).map(listing::Rule::deletion);
        let new =
            wanted.iter().flat_map(|(chain, rules)| rules.iter().map(|rule| pass.insertion(chain, rule)));
        self.apply(&old.chain(new).collect::<String>())?;
        Ok(Changed::Yes)
    }

    /// Whether [`Self::let_pass`] has nothing to do: whoever loads their own rules again takes ours away with the old
    /// ones.
    pub fn is_let_pass(&self, pass: &Pass<'_>) -> Result<bool, NftError> {
        let listing = self.list("ruleset")?;
        Ok(pass.is_right(&listing, &pass.wanted(&listing)))
    }

    /// Deletes all rules whose comment is the tag, wherever they are, and those of [`Self::let_pass`] for this bridge that
    /// have lost it.
    pub fn remove_tagged(&self, tag: &str, bridge: &str) -> Result<Changed, NftError> {
        let rules = self.list("ruleset")?;
        self.delete(rules.tagged(tag, bridge))
    }

    /// The comments of rules in our own tables, each with the table's name.
    pub fn list_own_comments(&self) -> Result<Vec<(String, String)>, NftError> {
        Ok(self.list("ruleset")?.own_comments())
    }

    /// Deletes the rules of an IPv4 table of our own whose comments are those.
    pub fn remove_commented(&self, table: &str, is_it: impl Fn(&str) -> bool) -> Result<Changed, NftError> {
        let rules = self.list("ruleset")?;
        self.delete(rules.commented(table, is_it))
    }

    fn delete<'a>(&self, rules: impl Iterator<Item = &'a listing::Rule>) -> Result<Changed, NftError> {
        let deletions: String = rules.map(listing::Rule::deletion).collect();
        if deletions.is_empty() {
            return Ok(Changed::No);
        }
        self.apply(&deletions)?;
        Ok(Changed::Yes)
    }

    fn list(&self, what: &'static str) -> Result<Listing, NftError> {
        let output = self.command().args(["-j", "-a", "list", what]).run();
        let output = output.map_err(|source| NftError::List { what, source })?;
        Listing::parse(&output.stdout).map_err(|source| NftError::Parse { what, source })
    }

    fn command(&self) -> Command {
        match &self.root {
            Some(root) => Command::new("/usr/sbin/nft").chroot(root),
            None => Command::new("nft"),
        }
    }
}

/// A file in memory that holds a text, to be read from its start.
fn text_file(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("ruleset", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
