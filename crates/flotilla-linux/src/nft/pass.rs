//! The way through the firewalls of others.

use std::collections::BTreeMap;

use super::listing::{Chain, Listing};

/// The chain of Docker's that is there for rules of others: it is gone through first and never flushed.
const DOCKER_USER: &str = "DOCKER-USER";

/// Base chains of others that refuse IPv4 packets which they do not know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Those that refuse what the host forwards.
    pub forward: Vec<Chain>,
    /// Those that refuse what is for the host itself.
    pub input: Vec<Chain>,
    /// Those of either kind that belong to a running program: the kernel lets nobody else put rules there.
    pub owned: Vec<Chain>,
}

impl Refusals {
    pub(super) fn of(listing: &Listing) -> Self {
        let mut owned = Vec::new();
        let mut open = |hook| {
            let (closed, open) =
                listing.refusing(hook).into_iter().partition(|chain| listing.is_owned(chain));
            owned.extend::<Vec<_>>(closed);
            open
        };
        let (forward, input) = (open("forward"), open("input"));
        Self { forward, input, owned }
    }
}

/// What a cluster needs of the firewalls of others.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    pub bridge: &'a str,
    /// The comment of our rules in chains of others. It holds no quotes.
    pub tag: &'a str,
    /// A program of the host is the name server that nodes ask.
    pub name_server_on_host: bool,
}

impl Pass<'_> {
    /// The rules that chains of others have to have, the last one first.
    pub(super) fn wanted(&self, listing: &Listing) -> BTreeMap<Chain, Vec<String>> {
        let refusals = Refusals::of(listing);
        let bridge = self.bridge;
        let mut wanted: BTreeMap<Chain, Vec<String>> = BTreeMap::new();
        for chain in &refusals.forward {
            let rules = ["oifname", "iifname"].map(|side| format!("{side} \"{bridge}\" accept"));
            wanted.entry(place_for_rules(listing, chain)).or_insert_with(|| rules.to_vec());
        }
        for chain in refusals.input.iter().filter(|_| self.name_server_on_host) {
            let rules =
                ["tcp", "udp"].map(|protocol| format!("iifname \"{bridge}\" {protocol} dport 53 accept"));
            wanted.insert(chain.clone(), rules.to_vec());
        }
        wanted
    }

    /// Whether these rules of ours are there and no others. That they are as many is enough: their text follows from the
    /// tag.
    pub(super) fn is_right(&self, listing: &Listing, wanted: &BTreeMap<Chain, Vec<String>>) -> bool {
        let counts =
            wanted.iter().map(|(chain, rules)| (chain.clone(), rules.len())).collect::<BTreeMap<_, _>>();
        listing.count_tagged(self.tag) == counts
    }

    pub(super) fn insertion(&self, chain: &Chain, rule: &str) -> String {
        let Chain { family, table, name } = chain;
        format!("insert rule {family} {table} {name} {rule} comment \"{}\"\n", self.tag)
    }
}

/// Where rules go that are to be heeded in a chain of others.
fn place_for_rules(listing: &Listing, chain: &Chain) -> Chain {
    let docker_user = Chain { name: DOCKER_USER.to_owned(), ..chain.clone() };
    if listing.has_chain(&docker_user) { docker_user } else { chain.clone() }
}
