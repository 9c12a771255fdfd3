//! A network that has nothing of the host's.

use std::cell::Cell;

use flotilla_linux::net::{self, Net};

/// What a host's network is in tests: the range of the link to the world, the link's address and the next router's. From the
/// ranges that documents use: no test asks for it.
pub const LAN: &str = "192.0.2.0/24";
const LINK: &str = "world";
const ADDRESS: &str = "192.0.2.2/24";
const ROUTER: &str = "192.0.2.1";

/// Gives this thread a network of its own, unless it has one: a loopback link, and a link with a default route. Threads and
/// processes that it starts from then on are in it, too. So nothing that the host or another test has (routes, links, rules,
/// programs that listen) changes what a program under test finds.
///
/// Only root can do that. Other users' tests see the host's network.
pub fn own_network() {
    thread_local! {
        static HAS_ONE: Cell<bool> = const { Cell::new(false) };
    }
    if !crate::is_root() || HAS_ONE.replace(true) {
        return;
    }
    net::leave().expect("root may have a network of its own");
    // By a thread without a runtime: the test may be one of tokio's.
    std::thread::scope(|scope| scope.spawn(connect).join()).expect("links and routes can be made");
}

/// Makes the network of this thread what hosts have.
fn connect() {
    let own = Net::here().expect("netlink");
    own.ensure_up("lo").expect("a loopback link");
    let address = ADDRESS.parse().expect("an address");
    own.ensure_bridge(LINK, "test", address, 1500).expect("a link to the world");
    let default = "0.0.0.0/0".parse().expect("a range");
    own.ensure_route(default, ROUTER.parse().expect("an address"), LINK).expect("a default route");
}
