//! Where the kernel sends packets, all of its routing tables and rules together.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use futures_util::TryStreamExt;
use ipnet::Ipv4Net;
use rtnetlink::packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};

use super::route::{route_of, to};
use super::{LinkInfo, Net, NetError};

/// An address of the world that belongs to nobody (RFC 5737): the way to it is the default route.
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
        let failed = |what| move |source| NetError::List { what, source };
        let rules = self.request(self.netlink.rule().get(IpVersion::V4).execute().try_collect::<Vec<_>>());
        let tables = tables_of(&rules.map_err(failed("routing rules"))?);
        let links = self.links()?;
        let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let routes = self.request(self.netlink.route().get(all).execute().try_collect::<Vec<_>>());
        Ok(used_ranges_of(&routes.map_err(failed("routes"))?, &tables, &links))
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

/// The table that a rule leads to; none if the rule is for special packets only: of one source, one link, one user, with a
/// mark.
fn table_of_rule(rule: &RuleMessage) -> Option<u32> {
    let inverted = rule.header.flags.contains(RuleFlags::Invert);
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
            | RuleAttribute::L3MDev(true) => return None,
            _ => {}
        }
    }
    (rule.header.action == RuleAction::ToTable).then_some(table)
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
