//! Packet rules, with the host's nft.

use std::io::{Seek, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use flotilla_linux::host::Command;
use flotilla_linux::net::Changed;
use flotilla_linux::nft::{Chain, HostRules, Nft, Pass, Refusals, host_table};

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

/// What `iptables-nft` makes of the rules that RHEL has had for decades, and what ufw does to packets for the host.
const RHEL: &str = "
    table ip filter {
        chain ufw-user-input { tcp dport 22 accept; }
        chain ufw-reject-input { counter reject; }
        chain INPUT {
            type filter hook input priority filter; policy accept;
            ct state established accept
            jump ufw-user-input
            jump ufw-reject-input
        }
        chain FORWARD {
            type filter hook forward priority filter; policy accept;
            counter reject with icmp type host-prohibited
        }
    }
    table inet quiet {
        chain forward {
            type filter hook forward priority filter; policy accept;
            ct state invalid drop
            ip saddr 203.0.113.9 reject
        }
        chain input { type filter hook input priority filter; policy drop; accept; }
    }
";

fn chain(family: &str, table: &str, name: &str) -> Chain {
    Chain { family: family.to_owned(), table: table.to_owned(), name: name.to_owned() }
}

fn pass(name_server_on_host: bool) -> Pass<'static> {
    Pass { bridge: "fl-test", tag: TAG, name_server_on_host }
}

fn ruleset() -> String {
    Command::new("nft").args(["list", "ruleset"]).run().unwrap().text()
}

fn host_rules() -> HostRules {
    HostRules {
        table: "flotilla-test".to_owned(),
        bridge: "fl-test".to_owned(),
        gateway: Ipv4Addr::new(10, 89, 0, 1),
        subnet: "10.89.0.0/24".parse().unwrap(),
        pod_subnet: "10.244.0.0/16".parse().unwrap(),
        service_subnet: "10.96.0.0/12".parse().unwrap(),
        name_servers: vec![(Ipv4Addr::new(10, 89, 0, 1), Ipv4Addr::LOCALHOST)],
        name_server_range: "169.254.53.0/24".parse().unwrap(),
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
            flotilla_testkit::does_not_apply("nft is not where bundles have it");
            return;
        }
        Nft::in_root(here).apply(&host_table(&host_rules())).unwrap();
        assert!(nft.table_exists("ip", "flotilla-test").unwrap());
    });
}

#[test]
fn a_node_s_table_takes_networks_that_overlap() {
    with_nft(|nft| {
        let [all, own] = ["10.244.0.0/16", "10.244.1.0/24"].map(|text| text.parse().unwrap());
        nft.apply(&flotilla_engine::node_config::packet_filter(own, &[all, own])).unwrap();
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
fn a_table_with_other_rules_or_fewer_is_noticed() {
    with_nft(|nft| {
        let rules = host_rules();
        assert!(!nft.has_host_table(&rules).unwrap());
        nft.apply(&host_table(&rules)).unwrap();
        assert!(nft.has_host_table(&rules).unwrap());
        let other = HostRules { name_servers: vec![], ..rules.clone() };
        assert!(!nft.has_host_table(&other).unwrap(), "the host has another name server");
        nft.apply("flush chain ip flotilla-test postrouting").unwrap();
        assert!(!nft.has_host_table(&rules).unwrap(), "somebody took rules away");
        nft.apply(&host_table(&rules)).unwrap();
        assert!(nft.has_host_table(&rules).unwrap());
    });
}

#[test]
fn chains_that_drop_let_the_bridge_pass_until_the_tag_is_removed() {
    with_nft(|nft| {
        nft.apply(DOCKER).unwrap();
        nft.apply(&host_table(&host_rules())).unwrap();
        let before = ruleset();
        let drops = [chain("ip", "filter", "FORWARD"), chain("inet", "firewall", "forward")];
        assert_eq!(nft.refusals().unwrap().forward, drops);
        assert!(!nft.is_let_pass(&pass(true)).unwrap());
        assert_eq!(nft.let_pass(&pass(true)).unwrap(), Changed::Yes);
        assert_eq!(nft.let_pass(&pass(true)).unwrap(), Changed::No);
        assert!(nft.is_let_pass(&pass(true)).unwrap());
        let after = ruleset();
        assert_eq!(after.matches("accept comment \"flotilla/test\"").count(), 4, "{after}");
        // Docker's own chain is as it was; its place for others' rules has ours before its own.
        assert!(after.contains("policy drop;\n\t\tjump DOCKER-USER\n"), "{after}");
        assert!(after.contains("chain DOCKER-USER {\n\t\tiifname \"fl-test\" accept"), "{after}");
        assert!(after.contains("policy drop;\n\t\tiifname \"fl-test\" accept"), "{after}");

        assert_eq!(nft.remove_tagged(TAG, "fl-test").unwrap(), Changed::Yes);
        assert_eq!(nft.remove_tagged(TAG, "fl-test").unwrap(), Changed::No);
        assert_eq!(ruleset(), before);
    });
}

#[test]
fn chains_that_refuse_by_a_rule_let_the_bridge_pass_and_the_questions_for_names() {
    with_nft(|nft| {
        nft.apply(RHEL).unwrap();
        let before = ruleset();
        let refusals = Refusals {
            forward: vec![chain("ip", "filter", "FORWARD")],
            input: vec![chain("ip", "filter", "INPUT")],
            owned: vec![],
        };
        assert_eq!(nft.refusals().unwrap(), refusals, "what only some packets are refused by is no concern");
        nft.let_pass(&pass(true)).unwrap();
        assert_eq!(nft.refusals().unwrap(), refusals, "rules for the bridge alone change nothing for others");
        let after = ruleset();
        for rule in
            ["iifname \"fl-test\" udp dport 53", "iifname \"fl-test\" tcp dport 53", "oifname \"fl-test\""]
        {
            assert!(after.contains(&format!("{rule} accept comment \"{TAG}\"")), "{after}");
        }
        // The name server is another machine now: the way to the host's own is closed again.
        assert!(!nft.is_let_pass(&pass(false)).unwrap());
        nft.let_pass(&pass(false)).unwrap();
        assert!(!ruleset().contains("dport 53"));
        nft.remove_tagged(TAG, "fl-test").unwrap();
        assert_eq!(ruleset(), before);
    });
}

#[test]
fn iptables_shows_our_rules_and_its_refusals_are_seen() {
    with_nft(|nft| {
        let iptables = |args: &str| Command::new("iptables-nft").args(args.split(' ')).run();
        if iptables("--version").is_err() {
            flotilla_testkit::skip("there is no iptables-nft in PATH");
            return;
        }
        for chain in ["INPUT", "FORWARD"] {
            iptables(&format!("-A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")).unwrap();
            iptables(&format!("-A {chain} -j REJECT --reject-with icmp-host-prohibited")).unwrap();
        }
        nft.let_pass(&pass(true)).unwrap();
        let listed = iptables("-S").unwrap().text();
        assert!(listed.contains("-A FORWARD -i fl-test"), "{listed}");
        assert!(listed.contains("-A INPUT -i fl-test -p udp -m udp --dport 53"), "{listed}");
        // Saved and restored, our rules have no comment that nft could read.
        let saved = Command::new("iptables-nft-save").run().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&saved.stdout).unwrap();
        file.rewind().unwrap();
        Command::new("iptables-nft-restore").stdin(file).run().unwrap();
        assert!(nft.is_let_pass(&pass(true)).unwrap());
        nft.remove_tagged(TAG, "fl-test").unwrap();
        assert!(!ruleset().contains("fl-test"), "{}", ruleset());
    });
}
