//! Where the kernel sends packets, all of its routing tables and rules together.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use futures_util::TryStreamExt;
use ipnet::Ipv4Net;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::route::{route_of, to};
use super::{LinkInfo, Net, NetError};

/// A public address that is reserved for documentation (RFC 5737): its route is the default route.
const WORLD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

const MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;
/// `RT_TABLE_LOCAL` of linux/rtnetlink.h: the host's own addresses.
const LOCAL: u32 = 255;

/// A range that a route of some table leads somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedRange {
    pub dst: Ipv4Net,
    /// None where there are several, or where it leads nowhere.
    pub link: Option<String>,
    /// The kernel looks at its table before the main one, as at Tailscale's: no route of the main table, however
    /// narrow, wins over it.
    pub before_main: bool,
}

impl Net {
    /// The ranges that this host's routes are for, of all tables that its rules name for ordinary packets. Default routes
    /// are among them only if they come before the main table.
    pub fn used_ranges(&self) -> Result<Vec<UsedRange>, NetError> {
        let tables = tables_of(&self.rules()?);
        let links = self.links()?;
        let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let routes = self.list("routes", &RouteNetlinkMessage::GetRoute(all), |message| match message {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        })?;
        Ok(used_ranges_of(&routes, &tables, &links))
    }

    fn rules(&self) -> Result<Vec<RuleMessage>, NetError> {
        let mut all = RuleMessage::default();
        all.header.family = AddressFamily::Inet;
        self.list("routing rules", &RouteNetlinkMessage::GetRule(all), |message| match message {
            RouteNetlinkMessage::NewRule(rule) => Some(rule),
            _ => None,
        })
    }

    /// The MTU of the link by which packets leave for the world; none if the host has no way there.
    pub fn mtu_to_world(&self) -> Result<Option<u32>, NetError> {
        let way = self.netlink.route().get(to(Ipv4Net::from(WORLD)).build()).execute();
        // It is unreachable, then, or forbidden.
        let Ok(Some(way)) = self.request(async { std::pin::pin!(way).try_next().await }) else {
            return Ok(None);
        };
        let index = way.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        });
        let links = self.links()?;
        Ok(links.iter().find(|link| Some(link.index) == index).map(|link| link.mtu))
    }
}

/// The tables that packets without any mark may go by, each with whether it comes before the main one.
fn tables_of(rules: &[RuleMessage]) -> BTreeMap<u32, bool> {
    let mut named: Vec<_> =
        rules.iter().filter_map(|rule| Some((priority_of(rule), table_of_rule(rule)?))).collect();
    // The kernel lists them in this order already, and says so nowhere.
    named.sort_unstable();
    let main = named.iter().position(|(_, table)| *table == MAIN).unwrap_or(named.len());
    let mut tables = BTreeMap::from([(MAIN, false)]);
    for (place, (_, table)) in named.into_iter().enumerate() {
        if table != LOCAL {
            tables.entry(table).or_insert(place < main);
        }
    }
    tables
}

fn priority_of(rule: &RuleMessage) -> u32 {
    let priority = rule.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Priority(priority) => Some(*priority),
        _ => None,
    });
    priority.unwrap_or_default()
}

/// The table that a rule leads to; none if the rule is for special packets only: of one source, one link, one user, one
/// protocol, with a mark, or to one range. A range that is led to the main table counts: so a user puts a cluster before
/// a VPN, as `start` proposes it.
fn table_of_rule(rule: &RuleMessage) -> Option<u32> {
    let inverted = rule.header.flags.contains(RuleFlags::Invert);
    // `not to …` is for all packets but a few.
    let to_one_range = rule.header.dst_len > 0 && !inverted;
    if rule.header.tos != 0 {
        return None;
    }
    let mut table = u32::from(rule.header.table);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Table(number) => table = *number,
            // Without the mark: that is the ordinary ones, and how VPNs have theirs go by.
            RuleAttribute::FwMark(mark) if *mark != 0 && !inverted => return None,
            RuleAttribute::Source(_)
            | RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_)
            | RuleAttribute::L3MDev(true) => return None,
            _ => {}
        }
    }
    let counts = rule.header.action == RuleAction::ToTable && (!to_one_range || table == MAIN);
    counts.then_some(table)
}

fn used_ranges_of(
    routes: &[RouteMessage],
    tables: &BTreeMap<u32, bool>,
    links: &[LinkInfo],
) -> Vec<UsedRange> {
    let used = routes.iter().filter(|route| {
        // What is thrown is looked for in the next table.
        !matches!(route.header.kind, RouteType::Throw | RouteType::Broadcast | RouteType::Multicast)
    });
    let used = used.filter_map(|message| {
        let before_main = *tables.get(&table_of_route(message))?;
        let route = route_of(message, links);
        (before_main || route.dst.prefix_len() > 0).then_some(())?;
        Some(UsedRange { dst: route.dst, link: route.link, before_main })
    });
    used.collect()
}

fn table_of_route(route: &RouteMessage) -> u32 {
    let number = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(number) => Some(*number),
        _ => None,
    });
    number.unwrap_or_else(|| route.header.table.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtnetlink::packet_route::rule::RulePortRange;

    fn rule(priority: u32, table: u32, change: impl FnOnce(&mut RuleMessage)) -> RuleMessage {
        let mut rule = RuleMessage::default();
        rule.header.action = RuleAction::ToTable;
        rule.attributes = vec![RuleAttribute::Priority(priority), RuleAttribute::Table(table)];
        change(&mut rule);
        rule
    }

    #[test]
    fn a_range_that_is_led_to_the_main_table_puts_it_first() {
        let to = |rule: &mut RuleMessage| rule.header.dst_len = 16;
        let rules = [rule(100, MAIN, to), rule(200, 52, |_| {}), rule(32766, MAIN, |_| {})];
        assert_eq!(tables_of(&rules), BTreeMap::from([(52, false), (MAIN, false)]));
    }

    #[test]
    fn rules_for_some_packets_only_name_no_table() {
        let to = |rule: &mut RuleMessage| rule.header.dst_len = 16;
        let port = RuleAttribute::DestinationPortRange(RulePortRange { start: 53, end: 53 });
        let rules = [
            rule(110, 7, to),
            rule(120, 8, |rule| rule.header.tos = 16),
            rule(130, 9, |rule| rule.attributes.push(port)),
            rule(140, 10, |rule| {
                to(rule);
                rule.header.flags = RuleFlags::Invert;
            }),
            rule(200, 52, |_| {}),
            rule(32766, MAIN, |_| {}),
            rule(32767, 253, |_| {}),
        ];
        assert_eq!(tables_of(&rules), BTreeMap::from([(10, true), (52, true), (MAIN, false), (253, false)]));
    }
}
