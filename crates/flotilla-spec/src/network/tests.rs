use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn net(text: &str) -> Ipv4Net {
    parse_range(text).unwrap()
}

fn spec(subnet: Option<&str>, pods: Option<&str>, services: &str) -> NetworkSpec {
    NetworkSpec {
        subnet: subnet.map(net),
        pod_subnet: pods.map(net),
        service_subnet: net(services),
        ..NetworkSpec::default()
    }
}

fn reported(findings: &[SpecError]) -> String {
    let lines = findings.iter().map(|error| match error.hint() {
        Some(hint) => format!("{error}\n  hint: {hint}"),
        None => error.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_defaults_are_sound() {
    assert_eq!(NetworkSpec::default().check(), []);
}

#[test]
fn a_malformed_range_is_reported_with_the_right_one() {
    let bad = ["10.0.0", "10.0.0.0", "10.0.0.0/33", "10.0.0.5/24", "fd00::/64"];
    let findings: Vec<_> = bad.into_iter().map(|text| parse_range(text).unwrap_err()).collect();
    insta::assert_snapshot!(reported(&findings), @r#"
    "10.0.0" is not an address range
      hint: write an address and a prefix, for example `10.0.0.0/24`
    "10.0.0.0" is not an address range
      hint: write an address and a prefix, for example `10.0.0.0/24`
    "10.0.0.0/33" is not an address range
      hint: write an address and a prefix, for example `10.0.0.0/24`
    10.0.0.5/24 is an address with a prefix, not a range
      hint: write `10.0.0.0/24`
    fd00::/64 is an IPv6 range, and IPv6 is not supported yet
    "#);
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let mut network = spec(Some("10.96.0.0/15"), Some("10.96.0.0/25"), "10.0.0.0/8");
    network.dns_domain = "Cluster_local".to_owned();
    insta::assert_snapshot!(reported(&network.check()), @r#"
    the node subnet 10.96.0.0/15 overlaps the pod subnet 10.96.0.0/25
    the node subnet 10.96.0.0/15 overlaps the service subnet 10.0.0.0/8
    the node subnet 10.96.0.0/15 must have a prefix from /16 to /28
    the pod subnet 10.96.0.0/25 overlaps the service subnet 10.0.0.0/8
    the service subnet 10.0.0.0/8 must have a prefix from /12 to /28
    a pod subnet of /25 is too small for a node's /24
    "Cluster_local" is not a DNS domain
    "#);
}

#[test]
fn ranges_with_another_meaning_are_refused() {
    for text in ["0.0.0.0/16", "127.1.0.0/16", "169.254.7.0/24", "224.0.0.0/24", "255.255.255.0/24"] {
        let findings = spec(Some(text), None, "10.96.0.0/12").check();
        assert!(matches!(findings[..], [SpecError::UnusableRange { .. }]), "{text}: {findings:?}");
    }
    let findings = spec(None, Some("0.0.0.0/0"), "172.16.0.0/12").check();
    assert!(findings.iter().any(|error| matches!(error, SpecError::UnusableRange { .. })), "{findings:?}");
}

#[test]
fn a_nodes_pod_range_has_room_for_pods() {
    let prefix = |prefix| NetworkSpec { node_pod_prefix: prefix, ..NetworkSpec::default() }.check();
    assert_eq!(prefix(16), []);
    assert_eq!(prefix(28), []);
    assert_eq!(prefix(29), [SpecError::NodePodPrefix { prefix: 29, longest: 28 }]);
    assert_eq!(prefix(15), [SpecError::PodSubnetTooSmall { subnet_prefix: 16, prefix: 15 }]);
}

#[test]
fn given_ranges_and_that_of_services_can_be_taken_but_never_by_a_default_route() {
    let others = [
        (net("0.0.0.0/0"), "the route default dev eth0".to_owned()),
        (net("0.0.0.0/1"), "half of the world by tun0".to_owned()),
        (net("10.0.0.0/24"), "the route 10.0.0.0/24 dev eth0".to_owned()),
        (net("10.96.0.0/16"), "the route 10.96.0.0/16 dev tun0".to_owned()),
        (net("10.213.0.0/24"), "cluster demo".to_owned()),
    ];
    insta::assert_snapshot!(reported(&NetworkSpec::default().taken(&others)), @r"
    the service subnet 10.96.0.0/12 overlaps the route 10.96.0.0/16 dev tun0
      hint: choose another service range with --service-cluster-ip-range
    ");
    let whole = [(net("10.0.0.0/8"), "the route 10.0.0.0/8 dev tun0".to_owned())];
    assert_eq!(NetworkSpec::default().taken(&whole), [], "a VPN only loses a part to services");
    let network = spec(Some("10.213.0.0/24"), Some("10.0.0.0/16"), "10.96.0.0/12");
    insta::assert_snapshot!(reported(&network.taken(&others)), @"
    the node subnet 10.213.0.0/24 overlaps cluster demo
      hint: choose another range, or leave it out for a free one
    the pod subnet 10.0.0.0/16 overlaps the route 10.0.0.0/24 dev eth0
      hint: choose another range, or leave it out for a free one
    the service subnet 10.96.0.0/12 overlaps the route 10.96.0.0/16 dev tun0
      hint: choose another service range with --service-cluster-ip-range
    ");
}

#[test]
fn the_first_free_ranges_are_chosen() {
    let network = NetworkSpec::default();
    assert_eq!(network.choose_subnet(&[]), Some(net("10.213.0.0/24")));
    assert_eq!(network.choose_pod_subnet(&[]), Some(net("10.244.0.0/16")));
    let others = [net("0.0.0.0/0"), net("10.213.0.0/23"), net("10.244.3.0/24")];
    assert_eq!(network.choose_subnet(&others), Some(net("10.213.2.0/24")));
    assert_eq!(network.choose_pod_subnet(&others), Some(net("10.245.0.0/16")));
    // A VPN that routes all of 10.0.0.0/8, and one that replaces the default route by two /1 routes.
    let vpn = [net("10.0.0.0/8"), net("0.0.0.0/1"), net("128.0.0.0/1")];
    assert_eq!(network.choose_subnet(&vpn), Some(net("192.168.128.0/24")));
    assert_eq!(network.choose_pod_subnet(&vpn), Some(net("172.24.0.0/16")));
    let all = [net("10.0.0.0/8"), net("172.16.0.0/12"), net("192.168.0.0/16")];
    assert_eq!(network.choose_subnet(&all), None);
    assert_eq!(network.choose_pod_subnet(&all), None);
}

#[test]
fn services_get_another_range_only_if_the_default_hides_a_network() {
    let default = NetworkSpec::default();
    let usual = Some(net("10.96.0.0/12"));
    assert_eq!(default.choose_service_subnet(&[]), usual);
    // Another cluster's, a VPN's whole 10.0.0.0/8 and a default route.
    let harmless = [net("10.213.0.0/24"), net("10.0.0.0/8"), net("0.0.0.0/0")];
    assert_eq!(default.choose_service_subnet(&harmless), usual);
    let tunnel = [net("10.96.0.0/12")];
    assert_eq!(default.choose_service_subnet(&tunnel), Some(net("10.112.0.0/12")));
    let two = [net("10.96.0.0/16"), net("10.113.4.0/24")];
    assert_eq!(default.choose_service_subnet(&two), Some(net("10.128.0.0/12")));
    let own = spec(Some("10.112.0.0/24"), Some("10.128.0.0/16"), "10.96.0.0/12");
    assert_eq!(own.choose_service_subnet(&tunnel), Some(net("10.144.0.0/12")));
    let all: Vec<_> = (96..=176).step_by(16).map(|second| net(&format!("10.{second}.0.0/16"))).collect();
    assert_eq!(default.choose_service_subnet(&all), None);
}

#[test]
fn a_chosen_range_keeps_away_from_the_clusters_own() {
    let network = spec(Some("10.244.0.0/24"), Some("10.213.0.0/17"), "10.245.0.0/16");
    assert_eq!(network.choose_subnet(&[]), Some(net("10.213.128.0/24")));
    assert_eq!(network.choose_pod_subnet(&[]), Some(net("10.246.0.0/16")));
}

#[test]
fn the_plan_of_a_subnet_is_gateway_nodes_virtual_ip() {
    let subnet = net("10.213.0.0/24");
    assert_eq!(gateway(subnet).to_string(), "10.213.0.1");
    assert_eq!(virtual_ip(subnet).to_string(), "10.213.0.254");
    let node = |index| node_address(subnet, index).map(|address| address.to_string());
    assert_eq!(node(1).as_deref(), Some("10.213.0.2"));
    assert_eq!(node(252).as_deref(), Some("10.213.0.253"));
    assert_eq!([0, 253, 254, 255, u32::MAX].map(node), [None, None, None, None, None]);
}

#[test]
fn pod_ranges_are_counted_from_1() {
    let pods = net("10.244.0.0/16");
    assert_eq!(pod_range(pods, 24, 1), Some(net("10.244.0.0/24")));
    assert_eq!(pod_range(pods, 24, 256), Some(net("10.244.255.0/24")));
    assert_eq!(pod_range(pods, 16, 1), Some(pods));
    assert_eq!([0, 257].map(|index| pod_range(pods, 24, index)), [None, None]);
    assert_eq!(pod_range(pods, 8, 1), None);
}

fn any_net(prefixes: RangeInclusive<u8>) -> impl Strategy<Value = Ipv4Net> {
    (any::<u32>(), prefixes)
        .prop_map(|(bits, prefix)| Ipv4Net::new_assert(Ipv4Addr::from_bits(bits), prefix).trunc())
}

fn any_net_of_10() -> impl Strategy<Value = Ipv4Net> {
    (any::<u8>(), any::<u8>(), 9_u8..=28).prop_map(|(b, c, prefix)| range([10, b, c, 0], prefix).trunc())
}

proptest! {
    #[test]
    fn addresses_are_distinct_and_in_the_subnet(subnet in any_net(16..=28), from in 1_u32..70_000) {
        let fixed = [subnet.network(), subnet.broadcast(), gateway(subnet), virtual_ip(subnet)];
        let mut seen = BTreeSet::from(fixed);
        prop_assert_eq!(seen.len(), 4);
        for index in (1..=20).chain(from..from + 20).collect::<BTreeSet<_>>() {
            if let Some(address) = node_address(subnet, index) {
                prop_assert!(subnet.contains(&address));
                prop_assert!(seen.insert(address), "{} twice", address);
            }
        }
    }

    #[test]
    fn a_subnet_is_used_up_to_the_virtual_ip(subnet in any_net(20..=28)) {
        let room = (1_u32 << (32 - subnet.prefix_len())) - 4;
        prop_assert!(node_address(subnet, room).is_some());
        prop_assert_eq!(node_address(subnet, room + 1), None);
    }

    #[test]
    fn pod_ranges_are_apart_and_in_the_pod_subnet(
        pods in any_net(8..=24),
        more in 0_u8..=4,
        one in 1_u32..20,
        other in 1_u32..20,
    ) {
        let prefix = pods.prefix_len() + more;
        if let (Some(first), Some(second)) = (pod_range(pods, prefix, one), pod_range(pods, prefix, other)) {
            prop_assert!(pods.contains(&first) && pods.contains(&second));
            prop_assert_eq!(overlap(first, second), one == other);
        }
    }

    #[test]
    fn chosen_ranges_overlap_nothing(
        others in prop::collection::vec(any_net_of_10(), 0..40),
        services in any_net(12..=28),
    ) {
        let network = NetworkSpec { service_subnet: services, ..NetworkSpec::default() };
        for chosen in network.choose_subnet(&others).into_iter().chain(network.choose_pod_subnet(&others)) {
            for other in others.iter().chain([&services]) {
                prop_assert!(!overlap(chosen, *other), "{chosen} {other}");
            }
        }
    }

    #[test]
    fn any_text_is_a_range_or_an_error(text in "[0-9a-f:./]{0,24}") {
        if let Ok(range) = parse_range(&text) {
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }
}
