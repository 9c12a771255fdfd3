//! What `nft -j list …` says (libnftables-json(5)), as far as it is of interest here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::pass;
use super::verdict::{self, End, Verdict};

/// How the names of our own tables begin.
const OURS: &str = "flotilla";

/// What says that a table belongs to a running program.
const OWNER: &str = "owner";

/// The kernel takes no longer ways from chain to chain.
const MAX_DEPTH: usize = 16;

/// A chain, by where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain {
    pub family: String,
    pub table: String,
    pub name: String,
}

/// A list of tables, chains and rules.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    nftables: Vec<Entry>,
}

/// One object of the list. It has exactly one of these, or something we do not ask about.
#[derive(Debug, Deserialize)]
struct Entry {
    table: Option<TableEntry>,
    chain: Option<ChainEntry>,
    rule: Option<Rule>,
}

#[derive(Debug, Deserialize)]
struct TableEntry {
    family: String,
    name: String,
    /// One word, or several.
    #[serde(default)]
    flags: Value,
}

#[derive(Debug, Deserialize)]
struct ChainEntry {
    family: String,
    table: String,
    name: String,
    /// Base chains alone have these two.
    hook: Option<String>,
    policy: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    family: String,
    table: String,
    chain: String,
    handle: u64,
    comment: Option<String>,
    #[serde(default)]
    expr: Vec<Value>,
}

impl Listing {
    pub(super) fn parse(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }

    pub(super) fn has_table(&self, family: &str, name: &str) -> bool {
        let mut tables = self.nftables.iter().filter_map(|entry| entry.table.as_ref());
        tables.any(|table| table.family == family && table.name == name)
    }

    pub(super) fn has_chain(&self, chain: &Chain) -> bool {
        self.chains().any(|entry| entry.place() == *chain)
    }

    /// The chains of others at a hook that refuse IPv4 packets which no rule of theirs knows.
    pub(super) fn refusing(&self, hook: &str) -> Vec<Chain> {
        let refusing = self.chains().filter(|chain| {
            chain.hook.as_deref() == Some(hook)
                && matches!(chain.family.as_str(), "ip" | "inet")
                && !chain.table.starts_with(OURS)
                && self.refuses(chain)
        });
        refusing.map(ChainEntry::place).collect()
    }

    fn refuses(&self, chain: &ChainEntry) -> bool {
        match self.end_of_unknown(&chain.place(), 0) {
            Some(end) => end == End::Refused,
            None => chain.policy.as_deref() == Some("drop"),
        }
    }

    /// What becomes of a packet that no condition of the chain's rules is about; none if the chain does not decide.
    fn end_of_unknown(&self, chain: &Chain, depth: usize) -> Option<End> {
        if depth > MAX_DEPTH {
            return None;
        }
        for rule in self.rules().filter(|rule| rule.chain() == *chain) {
            let below = |name: &str| {
                let target = Chain { name: name.to_owned(), ..chain.clone() };
                self.end_of_unknown(&target, depth + 1)
            };
            match verdict::of(&rule.expr) {
                Verdict::None => {}
                Verdict::End(end) => return Some(end),
                Verdict::Return => return None,
                Verdict::Jump(target) => match below(target) {
                    None => {}
                    end => return end,
                },
                Verdict::Goto(target) => return below(target),
            }
        }
        None
    }

    /// Whether a running program owns a table, so that the kernel lets no other program change it. firewalld does that.
    pub(super) fn is_owned(&self, chain: &Chain) -> bool {
        let mut tables = self.nftables.iter().filter_map(|entry| entry.table.as_ref());
        tables.any(|table| {
            table.family == chain.family
                && table.name == chain.table
                && match &table.flags {
                    Value::String(flag) => flag == OWNER,
                    Value::Array(flags) => flags.iter().any(|flag| flag == OWNER),
                    _ => false,
                }
        })
    }

    /// The chains that have rules of [`Self::tagged`], each with how many.
    pub(super) fn count_tagged(&self, tag: &str, bridge: &str) -> BTreeMap<Chain, usize> {
        let mut counts = BTreeMap::new();
        for rule in self.tagged(tag, bridge) {
            *counts.entry(rule.chain()).or_default() += 1;
        }
        counts
    }

    /// Whether a table has so many rules, one of them with this comment.
    pub(super) fn has_rules(&self, family: &str, table: &str, count: usize, comment: &str) -> bool {
        let rules = || self.rules().filter(|rule| rule.family == family && rule.table == table);
        rules().count() == count && rules().any(|rule| rule.comment.as_deref() == Some(comment))
    }

    /// A cluster's rules in chains of others: those whose comment is the tag, and those that have lost it.
    pub(super) fn tagged(&self, tag: &str, bridge: &str) -> impl Iterator<Item = &Rule> {
        self.rules().filter(move |rule| match &rule.comment {
            Some(comment) => comment == tag,
            None => self.has_lost_tag(rule, bridge),
        })
    }

    /// Whether a rule is one of ours that went through `iptables-save` and `iptables-restore`, which turn the comment into
    /// one that nft cannot read.
    fn has_lost_tag(&self, rule: &Rule, bridge: &str) -> bool {
        matches!(rule.family.as_str(), "ip" | "inet")
            && !rule.table.starts_with(OURS)
            && !self.is_owned(&rule.chain())
            && pass::lets_pass(&rule.expr, bridge)
    }

    /// The rules of an IPv4 table whose comments are those.
    pub(super) fn commented(&self, table: &str, is_it: impl Fn(&str) -> bool) -> impl Iterator<Item = &Rule> {
        let of_table = self.rules().filter(move |rule| rule.family == "ip" && rule.table == table);
        of_table.filter(move |rule| rule.comment.as_deref().is_some_and(&is_it))
    }

    pub(super) fn own_comments(&self) -> Vec<(String, String)> {
        let own = self.rules().filter(|rule| rule.table.starts_with(OURS));
        own.filter_map(|rule| Some((rule.table.clone(), rule.comment.clone()?))).collect()
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.nftables.iter().filter_map(|entry| entry.rule.as_ref())
    }

    fn chains(&self) -> impl Iterator<Item = &ChainEntry> {
        self.nftables.iter().filter_map(|entry| entry.chain.as_ref())
    }
}

impl ChainEntry {
    fn place(&self) -> Chain {
        Chain { family: self.family.clone(), table: self.table.clone(), name: self.name.clone() }
    }
}

impl Rule {
    pub(super) fn chain(&self) -> Chain {
        Chain { family: self.family.clone(), table: self.table.clone(), name: self.chain.clone() }
    }

    /// What makes nft delete it.
    pub(super) fn deletion(&self) -> String {
        let Self { family, table, chain, handle, .. } = self;
        format!("delete rule {family} {table} {chain} handle {handle}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = r#"{"nftables": [
        {"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}},
        {"table": {"family": "ip", "name": "filter", "handle": 1}},
        {"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "handle": 2, "type": "filter",
                   "hook": "forward", "prio": 0, "policy": "drop"}},
        {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "handle": 3, "type": "filter",
                   "hook": "input", "prio": 0, "policy": "drop"}},
        {"chain": {"family": "ip", "table": "filter", "name": "DOCKER-USER", "handle": 4}},
        {"chain": {"family": "ip6", "table": "filter", "name": "FORWARD", "handle": 2, "type": "filter",
                   "hook": "forward", "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "firewall", "name": "forward", "handle": 2, "type": "filter",
                   "hook": "forward", "prio": 10, "policy": "accept"}},
        {"chain": {"family": "ip", "table": "flotilla-demo", "name": "forward", "handle": 2, "type": "filter",
                   "hook": "forward", "prio": 0, "policy": "drop"}},
        {"rule": {"family": "ip", "table": "filter", "chain": "DOCKER-USER", "handle": 9, "comment": "flotilla/demo",
                  "expr": [{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "fl-demo"}},
                           {"accept": null}]}},
        {"rule": {"family": "ip", "table": "filter", "chain": "DOCKER-USER", "handle": 5,
                  "expr": [{"counter": {"packets": 0, "bytes": 0}}, {"return": null}]}}
    ]}"#;

    fn chain(name: &str) -> Chain {
        Chain { family: "ip".to_owned(), table: "filter".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn only_chains_of_others_that_drop_forwarded_packets_of_ours_are_found() {
        let listing = Listing::parse(DOCKER.as_bytes()).unwrap();
        assert_eq!(listing.refusing("forward"), [chain("FORWARD")]);
        assert_eq!(listing.refusing("input"), [chain("INPUT")]);
    }

    #[test]
    fn tables_and_chains_are_found_by_all_of_their_names() {
        let listing = Listing::parse(DOCKER.as_bytes()).unwrap();
        assert!(listing.has_table("ip", "filter"));
        assert!(!listing.has_table("inet", "filter"));
        assert!(listing.has_chain(&chain("DOCKER-USER")));
        assert!(!listing.has_chain(&Chain { family: "ip6".to_owned(), ..chain("DOCKER-USER") }));
    }

    #[test]
    fn rules_are_found_by_their_comment_and_deleted_by_their_handle() {
        let listing = Listing::parse(DOCKER.as_bytes()).unwrap();
        let deletions: Vec<_> = listing.tagged("flotilla/demo", "fl-other").map(Rule::deletion).collect();
        assert_eq!(deletions, ["delete rule ip filter DOCKER-USER handle 9\n"]);
        assert_eq!(listing.tagged("flotilla", "fl-other").count(), 0);
    }

    #[test]
    fn comments_of_our_own_tables_are_told_apart_from_those_of_others() {
        let rule = |table: &str, handle, comment: &str| {
            format!(
                r#"{{"rule": {{"family": "ip", "table": "{table}", "chain": "output", "handle": {handle},
                             "comment": "{comment}", "expr": []}}}}"#
            )
        };
        let rules = [
            rule("flotilla-demo-ports", 1, "80 for demo"),
            rule("flotilla-demo-ports", 2, "80 for other"),
            rule("flotilla-other-ports", 3, "80 for demo"),
            rule("filter", 4, "80 for demo"),
        ];
        let listing = Listing::parse(format!(r#"{{"nftables": [{}]}}"#, rules.join(",")).as_bytes()).unwrap();
        let tables: Vec<_> = listing.own_comments().into_iter().map(|(table, _)| table).collect();
        assert_eq!(tables, ["flotilla-demo-ports", "flotilla-demo-ports", "flotilla-other-ports"]);
        let commented = listing.commented("flotilla-demo-ports", |comment| comment.ends_with("for demo"));
        let deletions: Vec<_> = commented.map(Rule::deletion).collect();
        assert_eq!(deletions, ["delete rule ip flotilla-demo-ports output handle 1\n"]);
    }
}
