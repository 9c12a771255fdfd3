//! What can go wrong with links, addresses and routes.

use std::io;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use rustix::process::Pid;

/// The network of a namespace could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("cannot connect to the kernel's netlink")]
    Connect { source: io::Error },
    #[error("cannot enter the network namespace of process {pid}")]
    Enter { pid: Pid, source: io::Error },
    /// `what` is `links`, `addresses`, `routes` or `routing rules`.
    #[error("cannot list the {what}")]
    List { what: &'static str, source: io::Error },
    #[error("there is no link {link}")]
    NoLink { link: String },
    #[error("the link {link} is not Flotilla's: it is a {kind} with the alias {alias:?}")]
    Foreign { link: String, kind: String, alias: String },
    #[error("cannot find the link {link}")]
    FindLink { link: String, source: io::Error },
    #[error("cannot make the {kind} {link}")]
    MakeLink { link: String, kind: &'static str, source: io::Error },
    #[error("cannot change the link {link}")]
    SetLink { link: String, source: io::Error },
    #[error("cannot delete the link {link}")]
    DeleteLink { link: String, source: io::Error },
    #[error("cannot give {link} the address {address}")]
    AddAddress { link: String, address: Ipv4Net, source: io::Error },
    #[error("cannot take the address {address} from {link}")]
    RemoveAddress { link: String, address: Ipv4Net, source: io::Error },
    #[error("cannot route {dst} through {via} on {link}")]
    AddRoute { dst: Ipv4Net, via: Ipv4Addr, link: String, source: io::Error },
    #[error("{dst} is routed by {} already, and not by Flotilla", link.as_deref().unwrap_or("another route"))]
    RouteTaken { dst: Ipv4Net, link: Option<String> },
    #[error("cannot remove the route to {dst}")]
    RemoveRoute { dst: Ipv4Net, source: io::Error },
}
