//! Packet rules, by way of the program `nft`.
//!
//! The kernel's rules are those of the calling thread's network namespace. Ours are in tables of our own, whose text
//! [`host_table`], [`forward_table`] and [`node_table`] write. In tables of others only single rules are put, each with a comment that
//! tells it is ours; nothing else of theirs is touched.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::host::{Command, CommandError};
use crate::net::Changed;

mod forwards;
mod listing;
mod tables;

pub use forwards::{Forward, Forwards, forward_table};
pub use listing::Chain;
pub use tables::{HostRules, NodeRules, host_table, node_table};

use listing::Listing;

/// The chain of Docker's that is there for rules of others: it is gone through first and never flushed.
const DOCKER_USER: &str = "DOCKER-USER";

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
        let input = text_file(ruleset).map_err(|source| NftError::Input { source })?;
        let applied = self.command().args(["-f", "-"]).stdin(input).run();
        applied.map(drop).map_err(|source| NftError::Apply { source })
    }

    /// Deletes a table with all in it. One that is not there is a success.
    pub fn delete_table(&self, family: &str, name: &str) -> Result<(), NftError> {
        self.apply(&tables::deletion(family, name))
    }

    pub fn table_exists(&self, family: &str, name: &str) -> Result<bool, NftError> {
        Ok(self.list("tables")?.has_table(family, name))
    }

    /// The chains of others that drop forwarded IPv4 packets unless told otherwise.
    ///
    /// No table of ours can overrule them: a packet has to be accepted in all of them. See [`Self::accept_in`].
    pub fn list_forward_drops(&self) -> Result<Vec<Chain>, NftError> {
        Ok(self.list("chains")?.forward_drops())
    }

    /// Lets a chain of others accept all that comes from or goes to a bridge, unless a rule with that tag is there.
    ///
    /// The rules go to the top of `DOCKER-USER` if that is in the same table, else of the chain itself. The tag
    /// becomes their comment, by which [`Self::remove_tagged`] finds them; it holds no quotes.
    pub fn accept_in(&self, chain: &Chain, bridge: &str, tag: &str) -> Result<Changed, NftError> {
        let rules = self.list("ruleset")?;
        let chain = place_for_rules(&rules, chain);
        if rules.tagged(tag).any(|rule| rule.chain() == chain) {
            return Ok(Changed::No);
        }
        let Chain { family, table, name } = &chain;
        let insert = |side: &str| {
            format!("insert rule {family} {table} {name} {side} \"{bridge}\" accept comment \"{tag}\"\n")
        };
        self.apply(&(insert("oifname") + &insert("iifname")))?;
        Ok(Changed::Yes)
    }

    /// Whether no chain of others that drops forwarded packets lacks the rules of [`Self::accept_in`]: whoever loads
    /// their own rules anew takes ours away with the old ones.
    pub fn is_accepted_everywhere(&self, tag: &str) -> Result<bool, NftError> {
        let rules = self.list("ruleset")?;
        let has_ours = |chain: &Chain| rules.tagged(tag).any(|rule| rule.chain() == *chain);
        Ok(rules.forward_drops().iter().all(|chain| has_ours(&place_for_rules(&rules, chain))))
    }

    /// Deletes all rules whose comment is the tag, wherever they are.
    pub fn remove_tagged(&self, tag: &str) -> Result<Changed, NftError> {
        let rules = self.list("ruleset")?;
        self.delete(rules.tagged(tag))
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

/// Where rules go that are to be heeded in a chain of others.
fn place_for_rules(rules: &Listing, chain: &Chain) -> Chain {
    let docker_user = Chain { name: DOCKER_USER.to_owned(), ..chain.clone() };
    if rules.has_chain(&docker_user) { docker_user } else { chain.clone() }
}

/// A file in memory that holds a text, to be read from its start.
fn text_file(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("ruleset", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
