//! The way through the firewalls of others.

use std::collections::BTreeMap;

use serde_json::Value;

use super::listing::{Chain, Listing};

/// The chain of Docker's that exists for rules of others: it is gone through first and never flushed.
const DOCKER_USER: &str = "DOCKER-USER";

/// The port of name servers.
const DNS: u16 = 53;

/// Base chains of others that refuse IPv4 packets which they do not know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Those that refuse what the host forwards.
    pub forward: Vec<Chain>,
    /// Those that refuse what is for the host itself.
    pub input: Vec<Chain>,
    /// Those of either kind that a running program owns: the kernel lets no other program add rules there.
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
                ["tcp", "udp"].map(|protocol| format!("iifname \"{bridge}\" {protocol} dport {DNS} accept"));
            wanted.insert(chain.clone(), rules.to_vec());
        }
        wanted
    }

    /// Whether exactly these rules of ours exist. Their number is enough: their text follows from the
    /// tag.
    pub(super) fn is_right(&self, listing: &Listing, wanted: &BTreeMap<Chain, Vec<String>>) -> bool {
        let counts =
            wanted.iter().map(|(chain, rules)| (chain.clone(), rules.len())).collect::<BTreeMap<_, _>>();
        listing.count_tagged(self.tag, self.bridge) == counts
    }

    pub(super) fn insertion(&self, chain: &Chain, rule: &str) -> String {
        let Chain { family, table, name } = chain;
        format!("insert rule {family} {table} {name} {rule} comment \"{}\"\n", self.tag)
    }
}

/// Whether a rule is like those of [`Pass::wanted`], maybe written by iptables. Rules that accept something else of the
/// bridge are a user's own.
pub(super) fn lets_pass(expressions: &[Value], bridge: &str) -> bool {
    let Some((end, conditions)) = expressions.split_last() else { return false };
    let (mut of_bridge, mut commented, mut port_unknown) = (false, false, false);
    for condition in conditions {
        let Some((kind, value)) = condition.as_object().and_then(|object| object.iter().next()) else {
            return false;
        };
        match (kind.as_str(), value["name"].as_str()) {
            ("counter", _) => {}
            ("xt", Some("comment")) => commented = true,
            // Older versions of iptables have the port in an extension, where nft does not see it.
            ("xt", Some("tcp" | "udp")) => port_unknown = true,
            ("match", _) if value["op"] == "==" => {
                let (left, right) = (&value["left"], &value["right"]);
                let is_protocol = left["meta"]["key"] == "l4proto" || left["payload"]["field"] == "protocol";
                if matches!(left["meta"]["key"].as_str(), Some("iifname" | "oifname")) && right == bridge {
                    of_bridge = true;
                } else if is_protocol && (right == "tcp" || right == "udp") {
                    port_unknown = true;
                } else if left["payload"]["field"] != "dport" || right != DNS {
                    return false;
                }
            }
            _ => return false,
        }
    }
    of_bridge && (commented || !port_unknown) && end.get("accept").is_some()
}

/// The position of rules that must apply in a chain of another program.
fn place_for_rules(listing: &Listing, chain: &Chain) -> Chain {
    let docker_user = Chain { name: DOCKER_USER.to_owned(), ..chain.clone() };
    if listing.has_chain(&docker_user) { docker_user } else { chain.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_of_ours_are_known_by_what_they_do_when_iptables_has_rewritten_them() {
        let equals = |left: Value, right: Value| json!({"match": {"op": "==", "left": left, "right": right}});
        let side = |key: &str, link: &str| equals(json!({"meta": {"key": key}}), json!(link));
        let port = |port: u16| equals(json!({"payload": {"protocol": "udp", "field": "dport"}}), json!(port));
        let xt = |name: &str| json!({"xt": {"type": "match", "name": name}});
        let (counter, accept) = (json!({"counter": {"packets": 0, "bytes": 0}}), json!({"accept": null}));
        let ours = |expressions: &[&Value]| {
            let expressions: Vec<_> = expressions.iter().map(|one| (*one).clone()).collect();
            lets_pass(&expressions, "fl-a")
        };
        let (from, to) = (side("iifname", "fl-a"), side("oifname", "fl-a"));
        assert!(ours(&[&from, &xt("comment"), &counter, &accept]));
        assert!(ours(&[&to, &counter, &accept]));
        assert!(ours(&[&from, &port(53), &xt("comment"), &counter, &accept]));
        assert!(ours(&[&from, &xt("udp"), &xt("comment"), &counter, &accept]));
        assert!(!ours(&[&from, &xt("udp"), &counter, &accept]), "any port");
        assert!(!ours(&[&from, &port(8080), &xt("comment"), &accept]));
        assert!(!ours(&[&side("iifname", "fl-b"), &accept]));
        assert!(!ours(&[&from, &json!({"drop": null})]));
        assert!(!ours(&[&from, &json!({"xt": null}), &accept]), "an older nft does not say what it is");
        assert!(!ours(&[&accept]) && !ours(&[]));
    }
}
