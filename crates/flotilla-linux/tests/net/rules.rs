//! Packet rules, with the host's nft.

use std::net::Ipv4Addr;
use std::path::Path;

use flotilla_linux::host::Command;
use flotilla_linux::net::Changed;
use flotilla_linux::nft::{Chain, HostRules, Nft, NodeRules, host_table, node_table};

use crate::support::with_nft;

/// What Docker does to a host, as far as it concerns us.
const DOCKER: &str = "
    table ip filter {
        chain DOCKER-USER { counter return; }
        chain FORWARD { type filter hook forward priority filter; policy drop; jump DOCKER-USER; }
    }
    table inet firewall {
        chain forward { type filter hook forward priority filter + 5; policy drop; ct state established accept; }
    }
";

const TAG: &str = "flotilla/test";

fn ruleset() -> String {
    Command::new("nft").args(["list", "ruleset"]).run().unwrap().text()
}

fn host_rules() -> HostRules {
    HostRules {
        table: "flotilla-test".to_owned(),
        bridge: "fl-test".to_owned(),
        subnet: "10.89.0.0/24".parse().unwrap(),
        pod_subnet: "10.244.0.0/16".parse().unwrap(),
        service_subnet: "10.96.0.0/12".parse().unwrap(),
        gateway: Ipv4Addr::new(10, 89, 0, 1),
        loopback_resolver: Some(Ipv4Addr::LOCALHOST),
    }
}

#[test]
fn tables_are_replaced_and_deleted() {
    with_nft(|nft| {
        nft.apply(&host_table(&host_rules())).unwrap();
        let once = ruleset();
        assert!(once.contains("dnat to 127.0.0.1"), "{once}");
        nft.apply(&host_table(&host_rules())).unwrap();
        assert_eq!(ruleset(), once);
        assert!(nft.table_exists("ip", "flotilla-test").unwrap());
        assert!(!nft.table_exists("inet", "flotilla-test").unwrap());
        nft.delete_table("ip", "flotilla-test").unwrap();
        nft.delete_table("ip", "flotilla-test").unwrap();
        assert!(!nft.table_exists("ip", "flotilla-test").unwrap());
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn the_nft_of_another_root_works_on_the_same_rules() {
    with_nft(|nft| {
        let here = Path::new("/");
        if !here.join("usr/sbin/nft").exists() {
            flotilla_testkit::skip("nft is not where bundles have it");
            return;
        }
        Nft::in_root(here).apply(&host_table(&host_rules())).unwrap();
        assert!(nft.table_exists("ip", "flotilla-test").unwrap());
    });
}

#[test]
fn a_node_s_table_takes_networks_that_overlap() {
    with_nft(|nft| {
        let no_masquerade = ["10.244.0.0/16", "10.244.1.0/24"].map(|text| text.parse().unwrap()).to_vec();
        let rules = NodeRules { pod_range: "10.244.1.0/24".parse().unwrap(), no_masquerade };
        nft.apply(&node_table(&rules)).unwrap();
        assert!(ruleset().contains("masquerade"));
    });
}

#[test]
fn broken_rules_change_nothing_and_tell_what_nft_said() {
    with_nft(|nft| {
        let error = nft.apply("table ip flotilla-test { }\nnonsense\n").unwrap_err();
        assert_eq!(error.to_string(), "cannot change the packet rules");
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn chains_that_drop_let_the_bridge_pass_until_the_tag_is_removed() {
    with_nft(|nft| {
        nft.apply(DOCKER).unwrap();
        nft.apply(&host_table(&host_rules())).unwrap();
        let before = ruleset();
        let chain = |family: &str, table: &str, name: &str| Chain {
            family: family.to_owned(),
            table: table.to_owned(),
            name: name.to_owned(),
        };
        let drops = nft.list_forward_drops().unwrap();
        assert_eq!(drops, [chain("ip", "filter", "FORWARD"), chain("inet", "firewall", "forward")]);
        for drop in &drops {
            assert!(!nft.is_accepted_everywhere(TAG).unwrap());
            assert_eq!(nft.accept_in(drop, "fl-test", TAG).unwrap(), Changed::Yes);
            assert_eq!(nft.accept_in(drop, "fl-test", TAG).unwrap(), Changed::No);
        }
        assert!(nft.is_accepted_everywhere(TAG).unwrap());
        let after = ruleset();
        assert_eq!(after.matches("accept comment \"flotilla/test\"").count(), 4, "{after}");
        // Docker's own chain is as it was; its place for others' rules has ours before its own.
        assert!(after.contains("policy drop;\n\t\tjump DOCKER-USER\n"), "{after}");
        assert!(after.contains("chain DOCKER-USER {\n\t\tiifname \"fl-test\" accept"), "{after}");
        assert!(after.contains("policy drop;\n\t\tiifname \"fl-test\" accept"), "{after}");

        assert_eq!(nft.remove_tagged(TAG).unwrap(), Changed::Yes);
        assert_eq!(nft.remove_tagged(TAG).unwrap(), Changed::No);
        assert_eq!(ruleset(), before);
    });
}
