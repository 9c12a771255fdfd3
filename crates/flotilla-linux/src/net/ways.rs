//! Many routes by one link, at a cost that does not grow with the routes that exist already.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::route::{messages, reading, to};
use super::{Net, NetError};

impl Net {
    /// The networks inside a range that a link leads to, with the neighbour that is the way to each.
    pub fn ways(&self, link: &str, range: Ipv4Net) -> Result<BTreeMap<Ipv4Net, Option<Ipv4Addr>>, NetError> {
        let index = self.link(link)?.index;
        let routes = messages(self)?.into_iter().map(|message| reading(&message));
        let by_link = routes.filter(|route| route.oif == Some(index) && range.contains(&route.dst));
        Ok(by_link.map(|route| (route.dst, route.via)).collect())
    }

    /// Leads packets for networks through neighbours on a link, wherever they went before. One request for each, and
    /// one for the link: nothing is looked at first.
    pub fn put_ways(
        &self,
        link: &str,
        ways: impl IntoIterator<Item = (Ipv4Net, Ipv4Addr)>,
    ) -> Result<(), NetError> {
        let index = self.link(link)?.index;
        for (dst, via) in ways {
            let message = to(dst.trunc()).gateway(via).output_interface(index).build();
            let put = self.request(self.netlink.route().add(message).replace().execute());
            put.map_err(|source| NetError::AddRoute { dst, via, link: link.to_owned(), source })?;
        }
        Ok(())
    }
}
