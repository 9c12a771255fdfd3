//! Links, addresses and routes of a network namespace. IPv4 only, as nodes are.
//!
//! ```no_run
//! # use flotilla_linux::net::{Net, NetError, Veth};
//! # fn example(node: &flotilla_linux::process::Process) -> Result<(), NetError> {
//! let host = Net::here()?;
//! let (gateway, address) = ("10.89.0.1/24".parse().unwrap(), "10.89.0.2/24".parse().unwrap());
//! host.ensure_bridge("fl-demo", "flotilla/demo", gateway, 1500)?;
//! host.ensure_veth(&Veth {
//!     name: "fl-demo-1",
//!     alias: "flotilla/demo/node-1",
//!     bridge: "fl-demo",
//!     loose_end: "fl-demo-1p",
//! })?;
//! host.move_link("fl-demo-1p", node, "eth0")?;
//! Net::of_process(node)?.configure("eth0", address, gateway.addr())?;
//! # Ok(())
//! # }
//! ```
//!
//! What exists and is right is left alone, and removing what does not exist succeeds; [`Changed`] says whether anything
//! was done.
//! Links made here carry an alias that says whose they are: one with another alias is somebody else's and is never
//! changed.
//!
//! Everything blocks: not to be called on a thread that runs async tasks.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::Ipv4Net;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use tokio::runtime::{Builder, Runtime};

use crate::process::Process;

mod address;
mod error;
mod link;
mod list;
mod lookup;
mod route;
mod tap;
mod ways;

pub use address::AddressInfo;
pub use error::NetError;
pub use link::{LinkInfo, Veth, hardware_address};
pub use lookup::UsedRange;
pub use route::RouteInfo;
pub use tap::Tap;

/// Whether something had to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    No,
    Yes,
}

impl Changed {
    /// Of two steps: whether either of them changed something.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == Self::Yes { self } else { other }
    }
}

/// A netlink connection to one network namespace, whichever thread uses it.
#[derive(Debug)]
pub struct Net {
    /// Has no thread of its own: it runs while somebody waits for an answer.
    runtime: Runtime,
    netlink: rtnetlink::Handle,
    requests: AtomicU64,
}

impl Net {
    /// Connects to the network namespace of this thread.
    pub fn here() -> Result<Self, NetError> {
        let connect = || -> io::Result<Self> {
            let runtime = Builder::new_current_thread().enable_io().build()?;
            // The socket finds the runtime it belongs to by this.
            let inside = runtime.enter();
            let (connection, netlink, _) = rtnetlink::new_connection()?;
            drop(inside);
            runtime.spawn(connection);
            Ok(Self { runtime, netlink, requests: AtomicU64::new(0) })
        };
        connect().map_err(|source| NetError::Connect { source })
    }

    /// Connects to the network namespace of a process.
    pub fn of_process(process: &Process) -> Result<Self, NetError> {
        let pid = process.pid();
        let failed = move |source| NetError::Enter { pid, source };
        let namespace = process.look(|proc| File::open(proc.join("ns/net"))).map_err(failed)?;
        // A socket stays in the namespace it was made in. Only its making needs a thread over there, which is one
        // of its own, so that no other thread ever changes its namespace.
        let connecting = std::thread::spawn(move || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network).map_err(|errno| failed(errno.into()))?;
            Self::here()
        });
        connecting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Brings a link that is this namespace's only one to the world to work, with the loopback link.
    ///
    /// Gives it its address, a hardware address that follows from it, and the default route. So a node that comes
    /// back with the same address is at once found by those who still remember it.
    pub fn configure(&self, link: &str, address: Ipv4Net, gateway: Ipv4Addr) -> Result<Changed, NetError> {
        let changed = self.ensure_up("lo")?;
        let changed = changed.or(self.ensure_hardware_address(link, link::hardware_address(address.addr()))?);
        let changed = changed.or(self.ensure_up(link)?);
        let changed = changed.or(self.ensure_address(link, address)?);
        Ok(changed.or(self.ensure_route(Ipv4Net::default(), gateway, link)?))
    }

    /// Whether [`Self::configure`] would find nothing to do, apart from hardware addresses. A link that is missing is not
    /// configured.
    pub fn is_configured(&self, link: &str, address: Ipv4Net, gateway: Ipv4Addr) -> Result<bool, NetError> {
        if !self.find_link(link)?.is_some_and(|link| link.up) {
            return Ok(false);
        }
        let default = RouteInfo { dst: Ipv4Net::default(), via: Some(gateway), link: Some(link.to_owned()) };
        let has = |found: &AddressInfo| found.link == link && found.address == address;
        Ok(self.addresses()?.iter().any(has) && self.routes()?.contains(&default))
    }

    /// How many requests the kernel was sent so far: what something costs, for tests.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Waits for the end of a request.
    fn request<T>(&self, request: impl Future<Output = Result<T, rtnetlink::Error>>) -> io::Result<T> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.runtime.block_on(request).map_err(|error| match error {
            rtnetlink::Error::NetlinkError(message) => message.to_io(),
            other => io::Error::other(other),
        })
    }
}

/// Moves this thread into a new network namespace, which has nothing but a loopback link that is down. Threads and processes
/// that it starts from then on are born there. Needs root.
#[expect(unsafe_code, reason = "unshare")]
pub fn leave() -> io::Result<()> {
    // SAFETY: no file descriptor tables are unshared, which is the only thing that can go wrong.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Takes what the kernel says about a thing that does not exist for a success.
fn absent_is_fine(result: io::Result<()>, absent: rustix::io::Errno) -> io::Result<Changed> {
    match result {
        Ok(()) => Ok(Changed::Yes),
        Err(error) if error.raw_os_error() == Some(absent.raw_os_error()) => Ok(Changed::No),
        Err(error) => Err(error),
    }
}
