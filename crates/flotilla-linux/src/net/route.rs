//! Routes of the main table.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage};
use rustix::io::Errno;

use super::{Changed, LinkInfo, Net, NetError, absent_is_fine};

/// A route of the main table, made by hand or following from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// `0.0.0.0/0` for the default route.
    pub dst: Ipv4Net,
    /// None where the destination is on the link itself.
    pub via: Option<Ipv4Addr>,
    /// None where there are several, or where it leads nowhere.
    pub link: Option<String>,
}

impl Net {
    /// Leads packets for `dst` through the neighbour `via` on a link, instead of another neighbour on it. A route by
    /// another link is somebody else's: it is never replaced.
    pub fn ensure_route(&self, dst: Ipv4Net, via: Ipv4Addr, link: &str) -> Result<Changed, NetError> {
        let failed = |source| NetError::AddRoute { dst, via, link: link.to_owned(), source };
        let dst = dst.trunc();
        let message = to(dst).gateway(via).output_interface(self.link(link)?.index).build();
        match self.request(self.netlink.route().add(message.clone()).execute()) {
            Ok(()) => return Ok(Changed::Yes),
            Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {}
            Err(error) => return Err(failed(error)),
        }
        let there: Vec<_> = self.routes()?.into_iter().filter(|route| route.dst == dst).collect();
        if there.contains(&RouteInfo { dst, via: Some(via), link: Some(link.to_owned()) }) {
            return Ok(Changed::No);
        }
        if let Some(other) = there.into_iter().find(|route| route.link.as_deref() != Some(link)) {
            return Err(NetError::RouteTaken { dst, link: other.link });
        }
        self.request(self.netlink.route().add(message).replace().execute()).map_err(failed)?;
        Ok(Changed::Yes)
    }

    /// Removes the route to `dst` that [`Self::ensure_route`] made. Those that follow from addresses stay.
    pub fn remove_route(&self, dst: Ipv4Net) -> Result<Changed, NetError> {
        let removed = self.request(self.netlink.route().del(to(dst.trunc()).build()).execute());
        absent_is_fine(removed, Errno::SRCH).map_err(|source| NetError::RemoveRoute { dst, source })
    }

    /// All IPv4 routes of the main table.
    pub fn routes(&self) -> Result<Vec<RouteInfo>, NetError> {
        let links = self.links()?;
        Ok(messages(self)?.iter().map(|message| route_of(message, &links)).collect())
    }
}

/// The routes of the main table. The kernel lists all tables, whatever the request says, unless asked to be strict.
pub(super) fn messages(net: &Net) -> Result<Vec<RouteMessage>, NetError> {
    let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
    net.list("routes", &RouteNetlinkMessage::GetRoute(all), |message| match message {
        RouteNetlinkMessage::NewRoute(route) if route.header.table == RouteHeader::RT_TABLE_MAIN => {
            Some(route)
        }
        _ => None,
    })
}

/// A static route to a network, in the making.
pub(super) fn to(dst: Ipv4Net) -> RouteMessageBuilder<Ipv4Addr> {
    RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(dst.addr(), dst.prefix_len())
}

/// What a route says, with its link by its number.
pub(super) struct Reading {
    pub(super) dst: Ipv4Net,
    pub(super) via: Option<Ipv4Addr>,
    pub(super) oif: Option<u32>,
}

pub(super) fn reading(message: &RouteMessage) -> Reading {
    let mut dst = Ipv4Addr::UNSPECIFIED;
    let (mut via, mut oif) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => dst = *address,
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => via = Some(*address),
            RouteAttribute::Oif(index) => oif = Some(*index),
            _ => {}
        }
    }
    let dst = Ipv4Net::new(dst, message.header.destination_prefix_length)
        .expect("the kernel's IPv4 prefixes have at most 32 bits");
    Reading { dst, via, oif }
}

pub(super) fn route_of(message: &RouteMessage, links: &[LinkInfo]) -> RouteInfo {
    let Reading { dst, via, oif } = reading(message);
    let link = links.iter().find(|link| Some(link.index) == oif).map(|link| link.name.clone());
    RouteInfo { dst, via, link }
}
