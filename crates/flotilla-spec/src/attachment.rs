//! Directories and ports of the host that a node uses.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{SpecError, text};

/// What a node itself writes, empties or runs. A directory of the host mounted there would lose its files: `kubeadm reset`
/// empties its directories, and the kubelet deletes what belongs to no pod.
///
/// Tests of the crates that write and remove files in nodes compare their paths with it.
const OWNED: [&str; 31] = [
    "/dev",
    "/proc",
    "/run",
    "/sys",
    "/var/run",
    "/etc/cni",
    "/etc/containerd",
    "/etc/default/kubelet",
    "/etc/flotilla",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/kubernetes",
    "/etc/machine-id",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/opt/cni",
    "/opt/flotilla",
    "/usr/local/bin/kubectl",
    "/usr/local/bin/sudo",
    "/usr/local/bin/systemctl",
    "/usr/local/sbin/flotilla-init",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/var/lib/etcd.restored",
    "/var/lib/flotilla",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/flotilla",
    "/var/log/pods",
];
/// Beside etcd's data: what a restore unpacks, and copies of what was there before.
const ETCD_COPIES: &str = "/var/lib/etcd.";

/// What a node itself writes, empties or runs.
pub fn paths_of_node() -> impl Iterator<Item = &'static str> {
    OWNED.into_iter()
}

/// The path of the node's own that is at, above or below this one; none if nothing of the node's own is concerned.
pub fn owned_by_node(path: &Path) -> Option<&'static str> {
    let is_copy = path.to_str().is_some_and(|path| path.starts_with(ETCD_COPIES));
    let path = if is_copy { Path::new("/var/lib/etcd") } else { path };
    OWNED.into_iter().find(|owned| path.starts_with(owned) || Path::new(owned).starts_with(path))
}

/// A directory of the host mounted into a node: `/src:/dst`, or `/src:/dst:ro` for read-only.
///
/// One with a target of the node's own can be read, since earlier releases stored such mounts; a check refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
}

impl FromStr for HostMount {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        let bad = || SpecError::Mount { given: given.to_owned() };
        let mut parts = given.split(':');
        let (Some(source), Some(target)) = (parts.next(), parts.next()) else { return Err(bad()) };
        let read_only = match (parts.next(), parts.next()) {
            (None | Some("rw"), None) => false,
            (Some("ro"), None) => true,
            _ => return Err(bad()),
        };
        let [source, target] = [source, target].map(PathBuf::from);
        if !is_plain(&source) || !is_plain(&target) {
            return Err(bad());
        }
        Ok(Self { source, target, read_only })
    }
}

impl HostMount {
    /// The node's own path that the mount conflicts with.
    pub fn conflict(&self) -> Option<&'static str> {
        owned_by_node(&self.target)
    }
}

/// Whether the path is absolute and without `..`.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir) && parts.all(|part| matches!(part, Component::Normal(_)))
}

impl fmt::Display for HostMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target, read_only } = self;
        write!(f, "{}:{}{}", source.display(), target.display(), if *read_only { ":ro" } else { "" })
    }
}

/// A port of the node that is published on the host: `8080:30080`, `0.0.0.0:8080:30080`, `5353:30053/udp`.
///
/// Without an address only programs of the host can use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The host's address; `0.0.0.0` is all of them.
    pub address: Ipv4Addr,
    pub host: u16,
    pub node: u16,
    pub protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl HostPort {
    /// Whether the two conflict: the same port on an address that both use.
    pub fn collides(&self, other: &Self) -> bool {
        let is_all = |port: &Self| port.address.is_unspecified();
        let meet = self.address == other.address || is_all(self) || is_all(other);
        meet && (self.host, self.protocol) == (other.host, other.protocol)
    }
}

impl FromStr for HostPort {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        let bad = || SpecError::Port { given: given.to_owned() };
        let (words, protocol) = match given.rsplit_once('/') {
            None => (given, Protocol::Tcp),
            Some((words, "tcp")) => (words, Protocol::Tcp),
            Some((words, "udp")) => (words, Protocol::Udp),
            Some(_) => return Err(bad()),
        };
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or_else(bad);
        let words: Vec<&str> = words.split(':').collect();
        let (address, host, node) = match words[..] {
            [both] => (Ipv4Addr::LOCALHOST, both, both),
            [host, node] => (Ipv4Addr::LOCALHOST, host, node),
            [address, host, node] => (address.parse().map_err(|_| bad())?, host, node),
            _ => return Err(bad()),
        };
        Ok(Self { address, host: port(host)?, node: port(node)?, protocol })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, host, node, protocol } = self;
        if *address != Ipv4Addr::LOCALHOST {
            write!(f, "{address}:")?;
        }
        write!(f, "{host}:{node}")?;
        if *protocol == Protocol::Tcp { Ok(()) } else { write!(f, "/{protocol}") }
    }
}

impl Serialize for HostMount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostMount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, str::parse)
    }
}

impl Serialize for HostPort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed_or_number(deserializer, str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_read_back_as_they_were_written() {
        for text in ["/src:/dst", "/a/b:/c/d:ro"] {
            assert_eq!(text.parse::<HostMount>().unwrap().to_string(), text);
        }
        assert!(!"/src:/dst:rw".parse::<HostMount>().unwrap().read_only);
        for text in ["", "/src", "src:/dst", "/src:dst", "/src:/dst:wo", "/src:/dst:ro:x"] {
            assert!(text.parse::<HostMount>().is_err(), "{text}");
        }
        for text in ["/../src:/dst", "/src:/a/../etc"] {
            assert!(text.parse::<HostMount>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_node_owns_is_no_target_and_neither_is_what_is_above_or_below() {
        let conflict = |target: &str| format!("/src:{target}").parse::<HostMount>().unwrap().conflict();
        for (target, owned) in [
            ("/etc/kubernetes/pki", "/etc/kubernetes"),
            ("/etc/kubernetes/", "/etc/kubernetes"),
            ("/var/lib/kubelet/pods/a", "/var/lib/kubelet"),
            ("/var/lib", "/var/lib/cni"),
            ("/etc", "/etc/cni"),
            ("/etc/./hosts", "/etc/hosts"),
            ("/", "/dev"),
            ("/var/lib/etcd.restored", "/var/lib/etcd"),
            ("/var/lib/etcd.before-3/member", "/var/lib/etcd"),
            ("/var/run/secrets", "/var/run"),
            ("/usr/local", "/usr/local/bin/kubectl"),
            ("/opt/flotilla/snapshots", "/opt/flotilla"),
        ] {
            assert_eq!(conflict(target), Some(owned), "{target}");
        }
        for free in [
            "/data",
            "/etc/ssl/certs",
            "/etc/kubernetes-mine",
            "/lib/modules",
            "/mnt",
            "/root/.docker",
            "/tmp/a",
            "/usr/local/share/ca-certificates",
            "/var/lib/etcdish",
            "/var/lib/postgres",
            "/var/log/mine",
        ] {
            assert_eq!(conflict(free), None, "{free}");
        }
    }

    #[test]
    fn ports_are_the_hosts_own_unless_an_address_is_named() {
        for (text, written) in [
            ("8080", "8080:8080"),
            ("8080:80", "8080:80"),
            ("127.0.0.1:8080:80/tcp", "8080:80"),
            ("0.0.0.0:53:30053/udp", "0.0.0.0:53:30053/udp"),
        ] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), written);
        }
        for text in ["", "0", "80:0", "65536", "a:80", "1.2.3:80:80", "80/sctp", "1:2:3:4", "80/"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn ports_collide_where_they_share_an_address() {
        let port = |text: &str| text.parse::<HostPort>().unwrap();
        assert!(port("80:1").collides(&port("80:2")));
        assert!(port("80:1").collides(&port("0.0.0.0:80:2")));
        assert!(!port("80:1").collides(&port("10.0.0.1:80:2")));
        assert!(!port("80:1").collides(&port("80:1/udp")));
    }
}
