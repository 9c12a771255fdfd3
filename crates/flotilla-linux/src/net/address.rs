//! Addresses of links.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use rtnetlink::AddressMessageBuilder;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rustix::io::Errno;

use super::{Changed, Net, NetError, absent_is_fine};

/// An address and the link it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressInfo {
    pub link: String,
    /// The address itself with the length of its network's prefix; [`Ipv4Net::trunc`] gives the network.
    pub address: Ipv4Net,
}

impl Net {
    /// Gives a link an address beside those it has.
    pub fn ensure_address(&self, link: &str, address: Ipv4Net) -> Result<Changed, NetError> {
        let failed = |source| NetError::AddAddress { link: link.to_owned(), address, source };
        let index = self.link(link)?.index;
        let given = self.netlink.address().add(index, address.addr().into(), address.prefix_len()).execute();
        match self.request(given) {
            Ok(()) => Ok(Changed::Yes),
            Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => Ok(Changed::No),
            Err(error) => Err(failed(error)),
        }
    }

    /// Takes an address from a link. A link that does not exist has none.
    pub fn remove_address(&self, link: &str, address: Ipv4Net) -> Result<Changed, NetError> {
        let failed = |source| NetError::RemoveAddress { link: link.to_owned(), address, source };
        let Some(found) = self.find_link(link)? else { return Ok(Changed::No) };
        let message = AddressMessageBuilder::<Ipv4Addr>::new()
            .index(found.index)
            .address(address.addr(), address.prefix_len())
            .build();
        let removed = self.request(self.netlink.address().del(message).execute());
        absent_is_fine(removed, Errno::ADDRNOTAVAIL).map_err(failed)
    }

    /// All IPv4 addresses of the namespace.
    pub fn addresses(&self) -> Result<Vec<AddressInfo>, NetError> {
        let links = self.links()?;
        let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let messages = self.list("addresses", &all, |message| match message {
            RouteNetlinkMessage::NewAddress(address) => Some(address),
            _ => None,
        })?;
        let addresses = messages.iter().filter_map(|message| {
            // A link that came between the two lists is passed over with its address.
            let link = links.iter().find(|link| link.index == message.header.index)?.name.clone();
            Some(AddressInfo { link, address: address_of(message)? })
        });
        Ok(addresses.collect())
    }
}

/// The link's own address: on a point-to-point link `IFA_ADDRESS` is the other side's (rtnetlink(7)).
fn address_of(message: &AddressMessage) -> Option<Ipv4Net> {
    message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(IpAddr::V4(local)) => Ipv4Net::new(*local, message.header.prefix_len).ok(),
        _ => None,
    })
}
