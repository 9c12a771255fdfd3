//! What a rule of others does with a packet that it has no condition for.

use serde_json::Value;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Accepted,
    Refused,
}

/// What a rule says about every packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    /// Nothing: it has conditions, or it only counts, logs or marks.
    None,
    End(End),
    Return,
    Jump(&'a str),
    Goto(&'a str),
}

/// The verdict of a rule, by its expressions as nft lists them.
///
/// What is not known is taken for a condition: chains of others are changed only where we are sure that they refuse.
pub(super) fn of(expressions: &[Value]) -> Verdict<'_> {
    let mut verdict = Verdict::None;
    for (kind, value) in expressions.iter().filter_map(Value::as_object).flatten() {
        let target = || value.get("target").and_then(Value::as_str).unwrap_or_default();
        verdict = match kind.as_str() {
            "counter" | "log" | "mangle" => continue,
            "xt" => match extension(value) {
                Extension::Harmless => continue,
                Extension::Refuses => Verdict::End(End::Refused),
                Extension::Condition => return Verdict::None,
            },
            "accept" => Verdict::End(End::Accepted),
            "drop" | "reject" => Verdict::End(End::Refused),
            "return" => Verdict::Return,
            "jump" => Verdict::Jump(target()),
            "goto" => Verdict::Goto(target()),
            _ => return Verdict::None,
        };
    }
    verdict
}

/// A part of a rule that iptables made and nft knows by name only.
enum Extension {
    Condition,
    Refuses,
    Harmless,
}

fn extension(value: &Value) -> Extension {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), text("name")) {
        ("target", "REJECT" | "DROP") => Extension::Refuses,
        ("target", "LOG" | "NFLOG" | "MARK" | "CONNMARK") | ("match", "comment") => Extension::Harmless,
        // Also what older versions of nft have no name for.
        _ => Extension::Condition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(expressions: &Value) -> bool {
        of(expressions.as_array().unwrap()) == Verdict::End(End::Refused)
    }

    #[test]
    fn only_what_is_refused_without_a_condition_is_refused() {
        let counter = json!({"counter": {"packets": 0, "bytes": 0}});
        let condition = json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}});
        let iptables = |kind: &str, name: &str| json!({"xt": {"type": kind, "name": name}});
        assert!(refused(&json!([{"drop": null}])));
        assert!(refused(
            &json!([counter, {"log": null}, {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}])
        ));
        assert!(refused(&json!([counter, iptables("target", "REJECT")])));
        assert!(refused(&json!([iptables("match", "comment"), counter, {"drop": null}])));
        assert!(!refused(&json!([condition, {"drop": null}])));
        assert!(!refused(&json!([iptables("match", "conntrack"), {"drop": null}])));
        assert!(!refused(&json!([{"limit": {"rate": 3, "per": "minute"}}, {"drop": null}])));
        assert!(!refused(&json!([{"xt": null}, {"drop": null}])), "an older nft does not say what it is");
        assert!(!refused(&json!([counter])));
    }

    #[test]
    fn the_way_through_other_chains_is_told() {
        assert_eq!(of(&[json!({"jump": {"target": "user"}})]), Verdict::Jump("user"));
        assert_eq!(of(&[json!({"goto": {"target": "user"}})]), Verdict::Goto("user"));
        assert_eq!(of(&[json!({"return": null})]), Verdict::Return);
        assert_eq!(of(&[json!({"accept": null})]), Verdict::End(End::Accepted));
    }
}
