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

/// A new cluster on a host that has a route like the one of minikube's `tunnel`.
fn start_new(args: &str) -> Option<Ran> {
    if !may_be_root() {
        return None;
    }
    let tunnel =
        "ip link add tun0 type bridge\nip link set tun0 up\nip route add 10.96.0.0/12 dev tun0 2>/dev/null";
    let script = format!("{tunnel}\nexec \"$0\" start -p new --dry-run --force {args}");
    Some(Home::new("unshare").run(["-n", "sh", "-euc", &script, env!("CARGO_BIN_EXE_flotilla")]))
}

#[test]
fn a_new_cluster_gets_a_free_range_for_its_services_and_an_explicit_one_is_refused() {
    let Some(ran) = start_new("-v 1") else { return };
    assert_eq!(ran.status, 0, "{ran}");
    let said = "the service subnet is 10.112.0.0/12: 10.96.0.0/12 would hide a network of this host";
    assert!(ran.stderr.contains(said), "{ran}");
    let Some(refused) = start_new("--service-cluster-ip-range 10.96.0.0/12") else { return };
    assert_eq!(refused.status, 14, "{refused}");
    assert!(refused.stderr.contains("the service subnet 10.96.0.0/12 overlaps"), "{refused}");
}
