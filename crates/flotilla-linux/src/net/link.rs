//! Links: finding, making, changing, deleting.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use futures_util::TryStreamExt;
use ipnet::Ipv4Net;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{
    BridgeStpState, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo as Info, LinkMessage,
};
use rtnetlink::{LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth};
use rustix::io::Errno;

use super::{Changed, Net, NetError, absent_is_fine};
use crate::process::Process;

const BRIDGE: &str = "bridge";
const VETH: &str = "veth";
/// What the kernel calls taps.
pub(super) const TUN: &str = "tun";

/// A link as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkInfo {
    pub name: String,
    /// Its owner; empty if none was set.
    pub alias: String,
    pub index: u32,
    pub up: bool,
    /// `bridge`, `veth`…; empty for hardware and loopback.
    pub kind: String,
    /// The index of the bridge or the like that it is a port of.
    pub master: Option<u32>,
    pub mtu: u32,
    pub hardware_address: Vec<u8>,
}

/// A cable, one end of which is a port of a bridge.
#[derive(Debug, Clone, Copy)]
pub struct Veth<'a> {
    /// The end in the bridge.
    pub name: &'a str,
    /// Says whose that end is.
    pub alias: &'a str,
    pub bridge: &'a str,
    /// The other end, as long as it is loose: [`Net::move_link`] gives it to a process.
    pub loose_end: &'a str,
}

impl Net {
    /// Makes a bridge that is up and has this address, or brings the one there is to that.
    pub fn ensure_bridge(
        &self,
        name: &str,
        alias: &str,
        address: Ipv4Net,
        mtu: u32,
    ) -> Result<Changed, NetError> {
        let found = self.find_link_of(name, BRIDGE, alias)?;
        if found.is_none() {
            // A bridge without an address of its own takes the lowest one of its ports: it would change as nodes
            // come and go, and those that remember the gateway's would wait for it in vain. The forward delay
            // would keep a new port silent for 15 seconds.
            let bridge = LinkMessageBuilder::<LinkBridge>::new(name)
                .address(hardware_address(address.addr()).to_vec())
                .stp_state(BridgeStpState::Disabled)
                .forward_delay(0);
            self.make_link(name, BRIDGE, bridge.build())?;
        }
        let link = self.link(name)?;
        let right = link.up && link.alias == alias && link.mtu == mtu;
        if !right {
            let wanted = LinkUnspec::new_with_index(link.index).alias(alias).mtu(mtu).up();
            self.set_link(name, wanted)?;
        }
        let addressed = self.ensure_address(name, address)?;
        Ok(if right && found.is_some() { addressed } else { Changed::Yes })
    }

    /// Lays a cable from a bridge to a loose end here, which is down. Both ends get the MTU of the bridge.
    ///
    /// A cable of that name that is ours is kept, wherever its other end is, and put into the bridge again.
    pub fn ensure_veth(&self, veth: &Veth<'_>) -> Result<Changed, NetError> {
        let bridge = self.link(veth.bridge)?;
        let found = self.find_link_of(veth.name, VETH, veth.alias)?;
        let link = if let Some(link) = found {
            link
        } else {
            let peer = LinkMessageBuilder::<LinkUnspec>::new().name(veth.loose_end).mtu(bridge.mtu).build();
            let pair = LinkMessageBuilder::<LinkVeth>::new(veth.name, veth.loose_end)
                .mtu(bridge.mtu)
                // At once: by its bridge it is found even if we are killed before it has its alias.
                .controller(bridge.index)
                .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)));
            self.make_link(veth.name, VETH, pair.build())?;
            self.link(veth.name)?
        };
        self.ensure_in_bridge(&link, veth.alias, &bridge)
    }

    /// Makes a link a port of a bridge: up, with the bridge's MTU, and with an alias. A new one has none: the kernel takes none
    /// from the request that makes a link.
    pub(super) fn ensure_in_bridge(
        &self,
        link: &LinkInfo,
        alias: &str,
        bridge: &LinkInfo,
    ) -> Result<Changed, NetError> {
        let right = link.up && link.alias == alias && link.master == Some(bridge.index);
        if right && link.mtu == bridge.mtu {
            return Ok(Changed::No);
        }
        let wanted = LinkUnspec::new_with_index(link.index).alias(alias).controller(bridge.index);
        self.set_link(&link.name, wanted.mtu(bridge.mtu).up())?;
        Ok(Changed::Yes)
    }

    /// Moves a link into the network namespace of a process, under another name. Without such a link there is nothing to
    /// do: it may have been moved before.
    pub fn move_link(&self, name: &str, process: &Process, new_name: &str) -> Result<Changed, NetError> {
        let Some(link) = self.find_link(name)? else { return Ok(Changed::No) };
        let failed = |source| NetError::Enter { pid: process.pid(), source };
        // By a descriptor, not by the process's number, which may be another's in a moment.
        let namespace = process.look(|proc| File::open(proc.join("ns/net"))).map_err(failed)?;
        let moved = LinkUnspec::new_with_index(link.index).name(new_name).setns_by_fd(namespace.as_raw_fd());
        self.set_link(name, moved)?;
        Ok(Changed::Yes)
    }

    /// Turns a link on.
    pub fn ensure_up(&self, name: &str) -> Result<Changed, NetError> {
        let link = self.link(name)?;
        if link.up {
            return Ok(Changed::No);
        }
        self.set_link(name, LinkUnspec::new_with_index(link.index).up())?;
        Ok(Changed::Yes)
    }

    /// Gives a link an MTU.
    pub fn ensure_mtu(&self, name: &str, mtu: u32) -> Result<Changed, NetError> {
        let link = self.link(name)?;
        if link.mtu == mtu {
            return Ok(Changed::No);
        }
        self.set_link(name, LinkUnspec::new_with_index(link.index).mtu(mtu))?;
        Ok(Changed::Yes)
    }

    /// All links of the namespace.
    pub fn links(&self) -> Result<Vec<LinkInfo>, NetError> {
        self.list("links", &RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(LinkInfo::from(link)),
            _ => None,
        })
    }

    /// A link by its name.
    pub fn find_link(&self, name: &str) -> Result<Option<LinkInfo>, NetError> {
        let asked = self.netlink.link().get().match_name(name.to_owned()).execute();
        match self.request(async { std::pin::pin!(asked).try_next().await }) {
            Ok(link) => Ok(link.map(LinkInfo::from)),
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
            Err(source) => Err(NetError::FindLink { link: name.to_owned(), source }),
        }
    }

    /// Deletes a link, with the other end if it is one of a pair.
    pub fn delete_link(&self, name: &str) -> Result<Changed, NetError> {
        let Some(link) = self.find_link(name)? else { return Ok(Changed::No) };
        let deleted = self.request(self.netlink.link().del(link.index).execute());
        absent_is_fine(deleted, Errno::NODEV)
            .map_err(|source| NetError::DeleteLink { link: name.to_owned(), source })
    }

    /// Deletes all links whose alias is `owner` or begins with `owner/`, and tells their names. Also those whose making was cut
    /// short: ports of its bridge without an alias, whose names begin with `prefix`.
    pub fn delete_links_of(&self, owner: &str, prefix: &str) -> Result<Vec<String>, NetError> {
        let mut deleted = Vec::new();
        let links = self.links()?;
        let bridges: Vec<_> =
            links.iter().filter(|link| link.belongs_to(owner)).map(|link| link.index).collect();
        let is_unfinished = |link: &LinkInfo| {
            let is_on_bridge = link.master.is_some_and(|bridge| bridges.contains(&bridge));
            is_on_bridge && link.alias.is_empty() && link.name.starts_with(prefix)
        };
        for link in &links {
            let is_ours = link.belongs_to(owner) || is_unfinished(link);
            if is_ours && self.delete_link(&link.name)? == Changed::Yes {
                deleted.push(link.name.clone());
            }
        }
        Ok(deleted)
    }

    /// Gives a link a hardware address. Works while it is up, for the kinds of links a node has.
    pub(super) fn ensure_hardware_address(&self, name: &str, address: [u8; 6]) -> Result<Changed, NetError> {
        let link = self.link(name)?;
        if link.hardware_address == address {
            return Ok(Changed::No);
        }
        self.set_link(name, LinkUnspec::new_with_index(link.index).address(address.to_vec()))?;
        Ok(Changed::Yes)
    }

    /// A link that has to be there.
    pub(super) fn link(&self, name: &str) -> Result<LinkInfo, NetError> {
        self.find_link(name)?.ok_or_else(|| NetError::NoLink { link: name.to_owned() })
    }

    /// A link of ours by its name, if there is one; one that is not ours is an error.
    ///
    /// Without an alias it is one whose making was cut short.
    pub(super) fn find_link_of(
        &self,
        name: &str,
        kind: &str,
        alias: &str,
    ) -> Result<Option<LinkInfo>, NetError> {
        let found = self.find_link(name)?;
        match found {
            Some(link) if link.kind != kind || !(link.alias.is_empty() || link.alias == alias) => {
                Err(NetError::Foreign { link: link.name, kind: link.kind, alias: link.alias })
            }
            found => Ok(found),
        }
    }

    fn make_link(&self, name: &str, kind: &'static str, message: LinkMessage) -> Result<(), NetError> {
        self.request(self.netlink.link().add(message).execute()).map_err(|source| NetError::MakeLink {
            link: name.to_owned(),
            kind,
            source,
        })
    }

    fn set_link(&self, name: &str, wanted: LinkMessageBuilder<LinkUnspec>) -> Result<(), NetError> {
        self.request(self.netlink.link().set(wanted.build()).execute())
            .map_err(|source| NetError::SetLink { link: name.to_owned(), source })
    }
}

impl LinkInfo {
    /// Whether it is a link whose packets a process reads and writes.
    pub fn is_tap(&self) -> bool {
        self.kind == TUN
    }

    /// Whether the alias is `owner`, or that of a part of it.
    pub fn belongs_to(&self, owner: &str) -> bool {
        self.alias.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl From<LinkMessage> for LinkInfo {
    fn from(message: LinkMessage) -> Self {
        let header = message.header;
        let up = header.flags.contains(LinkFlags::Up);
        let mut link = Self { index: header.index, up, ..Self::default() };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::IfAlias(alias) => link.alias = alias,
                LinkAttribute::Controller(index) => link.master = Some(index),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Address(address) => link.hardware_address = address,
                LinkAttribute::LinkInfo(infos) => link.kind = kind_of(&infos),
                _ => {}
            }
        }
        link
    }
}

fn kind_of(infos: &[Info]) -> String {
    let kind = infos.iter().find_map(|info| match info {
        Info::Kind(kind) => Some(InfoKind::to_string(kind)),
        _ => None,
    });
    kind.unwrap_or_default()
}

/// The hardware address that belongs to an address: always the same, and no maker's (its second-lowest bit is set).
pub fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0xf1, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_the_links_of_its_parts_but_not_those_of_its_namesakes() {
        let link = |alias: &str| LinkInfo { alias: alias.to_owned(), ..LinkInfo::default() };
        assert!(link("flotilla/demo").belongs_to("flotilla/demo"));
        assert!(link("flotilla/demo/node-1").belongs_to("flotilla/demo"));
        assert!(!link("flotilla/demo2").belongs_to("flotilla/demo"));
        assert!(!link("").belongs_to("flotilla/demo"));
    }

    #[test]
    fn hardware_addresses_are_local_and_not_of_groups() {
        let address = hardware_address(Ipv4Addr::new(10, 89, 0, 2));
        assert_eq!(address, [0x02, 0xf1, 10, 89, 0, 2]);
        assert_eq!(address[0] & 0b11, 0b10);
    }
}
