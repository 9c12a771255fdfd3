//! A stopped cluster whose addresses others on the host have got meanwhile, in a network namespace of each test's own.

use flotilla_testkit::{Home, Ran};

use super::may_be_root;
use super::stopped::put_cluster;

/// Starts the cluster demo, which has 10.213.77.0/24, on a host that a script has changed.
fn start(script: &str, args: &str) -> Option<Ran> {
    if !may_be_root() {
        return None;
    }
    let home = Home::new("unshare");
    put_cluster(&home, "- name: demo\n  role: control-plane\n", &["demo"]);
    let script = format!("{script}\nexec \"$0\" start -p demo --dry-run {args}");
    Some(home.run(["-n", "sh", "-euc", &script, env!("CARGO_BIN_EXE_flotilla")]))
}

/// The network of a café.
const WLAN: &str = "
ip link add wlan0 type bridge
ip address add 10.213.77.5/24 dev wlan0
ip link set wlan0 up";

/// A route of Tailscale's, in a table that the kernel looks at before the main one.
const TAILSCALE: &str = "
ip link add tailscale0 type bridge
ip link set tailscale0 up
ip route add 10.213.0.0/16 dev tailscale0 table 52
ip rule add priority 5270 lookup 52";

#[test]
fn it_is_refused_with_the_link_that_has_them() {
    let Some(ran) = start(WLAN, "") else { return };
    assert_eq!(ran.status, 71, "{ran}");
    let why = "packets for the node subnet 10.213.77.0/24 are routed to the link wlan0";
    assert!(ran.stderr.contains(why), "{ran}");
}

#[test]
fn by_force_it_is_only_told() {
    let Some(ran) = start(WLAN, "--force") else { return };
    assert_eq!(ran.status, 0, "{ran}");
    assert!(ran.stderr.contains("are routed to the link wlan0"), "{ran}");
}

#[test]
fn a_route_that_comes_first_is_named_with_what_puts_the_cluster_first() {
    let Some(ran) = start(TAILSCALE, "") else { return };
    assert_eq!(ran.status, 71, "{ran}");
    let cure = "ip rule add to 10.213.77.0/24 lookup main priority 100";
    assert!(ran.stderr.contains("by tailscale0") && ran.stderr.contains(cure), "{ran}");
    let Some(cured) = start(&format!("{TAILSCALE}\n{cure}"), "") else { return };
    assert_eq!(cured.status, 0, "{cured}");
}

#[test]
fn a_wider_route_of_a_vpn_is_no_trouble() {
    let vpn = "ip link add tun0 type bridge\nip link set tun0 up\nip route add 10.0.0.0/8 dev tun0";
    let Some(ran) = start(vpn, "") else { return };
    assert_eq!(ran.status, 0, "{ran}");
    assert!(!ran.stderr.contains("tun0"), "{ran}");
}
