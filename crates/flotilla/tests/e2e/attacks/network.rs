//! What a node sends, and who reaches it.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use flotilla_linux::host::Command;

use super::field::{Field, reached};
use super::{Attack, Stopped, Tried, Works};
use crate::faults::kernel;
use crate::lab::{Cluster, LAN, Namespaces};

const OWN_ONLY: &str = "rules for the node's port of the bridge";

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "services of the host on 127.0.0.1",
        none: Stopped,
        user: Stopped,
        why: "the host drops such packets",
        run: loopback,
    },
    Attack {
        name: "services of the host on its other addresses",
        none: Stopped,
        user: Stopped,
        why: "the cluster's rules",
        run: |field| {
            let lan = Lan::new();
            lan.reach_host_from_node(field)
        },
    },
    Attack {
        name: "services of the host on `host.flotilla.internal`",
        none: Works,
        user: Works,
        why: "on purpose: [networking.md](networking.md)",
        run: |field| {
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            connect(field, gateway(field), listener.local_addr().unwrap().port())
        },
    },
    Attack {
        name: "nodes, from the host's neighbours",
        none: Stopped,
        user: Stopped,
        why: "the cluster's rules: only published ports lead in",
        run: |field| Lan::new().reach(SocketAddr::new(api(field.cluster), 6443), field),
    },
    Attack {
        name: "pods, from the host's neighbours",
        none: Stopped,
        user: Stopped,
        why: "the same",
        run: |field| Lan::new().reach(SocketAddr::new(pod(field), 8080), field),
    },
    Attack {
        name: "send from the address of another node",
        none: Stopped,
        user: Stopped,
        why: OWN_ONLY,
        run: |field| spoof(field, field.cluster.ip().parse().unwrap()),
    },
    Attack {
        name: "send from the virtual IP",
        none: Stopped,
        user: Stopped,
        why: OWN_ONLY,
        run: |field| spoof(field, api(field.cluster)),
    },
    Attack {
        name: "send from the address of a pod elsewhere",
        none: Stopped,
        user: Stopped,
        why: OWN_ONLY,
        run: |field| {
            let range = field.cluster.field(&["node", &field.cluster.name], "{.spec.podCIDR}");
            let first: Ipv4Addr = range.split('/').next().unwrap().parse().unwrap();
            spoof(field, Ipv4Addr::from_bits(first.to_bits() + 40).into())
        },
    },
    Attack {
        name: "send from any other address",
        none: Stopped,
        user: Stopped,
        why: OWN_ONLY,
        run: |field| spoof(field, Ipv4Addr::new(192, 0, 2, 77).into()),
    },
    Attack {
        name: "claim the virtual IP, another node's or the host's by ARP",
        none: Stopped,
        user: Stopped,
        why: OWN_ONLY,
        run: claim,
    },
    Attack {
        name: "take the MAC address of another node",
        none: Stopped,
        user: Stopped,
        why: OWN_ONLY,
        run: take_mac,
    },
    Attack { name: "reach the host by IPv6", none: Stopped, user: Stopped, why: OWN_ONLY, run: ipv6 },
];

fn gateway(field: &Field) -> IpAddr {
    field.ssh("ip -4 route show default").split(' ').nth(2).unwrap().parse().unwrap()
}

/// The virtual IP, as clients have it.
fn api(cluster: &Cluster) -> IpAddr {
    let server =
        cluster.kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    server.strip_prefix("https://").unwrap().parse::<SocketAddr>().unwrap().ip()
}

fn pod(field: &Field) -> IpAddr {
    field.cluster.field(&["pod", "attacker"], "{.status.podIP}").parse().unwrap()
}

fn connect(field: &Field, address: IpAddr, port: u16) -> Tried {
    field.in_node(&format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{address}/{port}' || exit 1"))
}

/// Without a loopback link of its own, the node sends such packets to the host.
fn loopback(field: &Field) -> Tried {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let gateway = gateway(field);
    field.in_node(&format!(
        "sysctl -qw net.ipv4.conf.all.route_localnet=1
        ip address del 127.0.0.1/8 dev lo; ip route add 127.0.0.0/8 via {gateway}
        timeout 2 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'; r=$?
        ip route del 127.0.0.0/8 via {gateway}; ip address add 127.0.0.1/8 dev lo
        sysctl -qw net.ipv4.conf.all.route_localnet=0
        test $r = 0"
    ))
}

/// A neighbour of the host, with a way to the cluster. Gone when dropped.
struct Lan {
    namespaces: Namespaces,
    link: String,
    /// There is one at a time on the host: all have the same addresses.
    _turn: File,
}

impl Lan {
    const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn new() -> Self {
        let turn = File::open(std::env::current_exe().unwrap()).unwrap();
        turn.lock().unwrap();
        let link = format!("{LAN}{}", std::process::id());
        let lan = Self { namespaces: Namespaces::new(), link, _turn: turn };
        let link = &lan.link;
        ip(&format!("link add {link} type veth peer name eth0 netns {}", lan.namespaces.id()));
        ip(&format!("address add {}/24 dev {link}", Self::HOST));
        ip(&format!("link set {link} up"));
        lan.namespaces.run(&format!(
            "ip address add 192.0.2.2/24 dev eth0
            ip link set eth0 up
            ip route add default via {}",
            Self::HOST
        ));
        lan
    }

    /// The host reaches it, which says that somebody answers there.
    fn reach(&self, address: SocketAddr, _: &Field) -> Tried {
        TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
        let (host, port) = (address.ip(), address.port());
        let mut knock = self.namespaces.shell(&format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}'"));
        reached(knock.output().unwrap().status.success(), address.to_string())
    }

    /// The node reaches the host by its address on this link.
    fn reach_host_from_node(self, field: &Field) -> Tried {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let tried = connect(field, Self::HOST.into(), listener.local_addr().unwrap().port());
        drop(self);
        tried
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        // A namespace is taken apart in the kernel's own time, and its links with it.
        drop(Command::new("ip").args(["link", "del", &self.link]).run());
    }
}

#[track_caller]
fn ip(args: &str) {
    Command::new("ip").args(args.split(' ')).run().unwrap();
}

/// Sends a packet from an address, and sees whether it arrives at the host. One from the node's own does.
fn spoof(field: &Field, address: IpAddr) -> Tried {
    let gateway = gateway(field);
    let listener = UdpSocket::bind((gateway, 0)).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut buffer = [0; 16];
    let own = field.cluster.succeed(&["ip", "-n", &field.worker]);
    field.ssh(&format!("attack send {} {gateway} {port}", own.trim()));
    assert!(listener.recv_from(&mut buffer).is_ok(), "nothing arrives from {own}");
    field.ssh(&format!("attack send {address} {gateway} {port} || true"));
    match listener.recv_from(&mut buffer) {
        Ok((_, from)) => Tried::Works(format!("from {from}")),
        Err(error) => Tried::Stopped(error.to_string()),
    }
}

/// Whom the host and the other node take for the owner of an address.
fn owners(field: &Field, addresses: &[IpAddr]) -> Vec<String> {
    let mut owners = Vec::new();
    for address in addresses {
        let line = format!("ip -4 neigh show {address}");
        let host = Command::new("ip").args(line.split(' ').skip(1)).run().unwrap().text();
        for said in [host, field.cluster.ssh(&line)] {
            let mac = said.split_whitespace().skip_while(|word| *word != "lladdr").nth(1);
            owners.push(format!("{address} {mac:?}"));
        }
    }
    owners
}

fn claim(field: &Field) -> Tried {
    let gateway = gateway(field);
    let addresses = [api(field.cluster), field.cluster.ip().parse().unwrap(), gateway];
    // Somebody who was asked a moment ago is not asked again, whatever others say.
    field.cluster.ssh(&format!("ping -c 1 {gateway}; sleep 1.5"));
    let before = owners(field, &addresses);
    let claims: Vec<_> = addresses.iter().map(|address| format!("attack claim eth0 {address}")).collect();
    field.ssh(&claims.join(" && "));
    let after = owners(field, &addresses);
    let mac = field.ssh("cat /sys/class/net/eth0/address");
    let taken: Vec<_> = after.iter().filter(|owner| owner.contains(&mac)).collect();
    reached(!taken.is_empty(), format!("before {before:?}, after {after:?}"))
}

/// Where the bridge sends packets for the other node, while this one says that it has its MAC address.
fn take_mac(field: &Field) -> Tried {
    let bridge = kernel::bridge(field.cluster);
    let port = kernel::port_of(field.cluster, &field.worker);
    let mac = field.cluster.ssh("cat /sys/class/net/eth0/address");
    let gateway = gateway(field);
    let line = format!(
        "own=$(cat /sys/class/net/eth0/address); ip link set eth0 address {mac}
        ping -c 2 -W 1 {gateway}; ip link set eth0 address $own"
    );
    let taken = std::thread::scope(|scope| {
        let attack = scope.spawn(|| field.ssh(&format!("({line}) >/dev/null 2>&1 || true")));
        let begun = Instant::now();
        let mut taken = false;
        while !attack.is_finished() && begun.elapsed() < Duration::from_secs(20) {
            let table = Command::new("bridge").args(["fdb", "show", "br", &bridge]).run().unwrap().text();
            taken |= table.lines().any(|line| line.starts_with(&format!("{mac} dev {port} ")));
        }
        attack.join().unwrap();
        taken
    });
    reached(taken, format!("{mac} at {port}"))
}

fn ipv6(field: &Field) -> Tried {
    let bridge = kernel::bridge(field.cluster);
    let shown =
        Command::new("ip").args(["-6", "-o", "address", "show", "dev", &bridge]).run().unwrap().text();
    let Some(address) = shown.split_whitespace().nth(3).and_then(|address| address.split('/').next()) else {
        return Tried::Impossible("the bridge has no such address".to_owned());
    };
    field.in_node(&format!("busybox ping -6 -c 1 -W 1 -I eth0 {address} || exit 1"))
}
