use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use flotilla_node_api::{Content, Link};
use tempfile::TempDir;

use super::*;

fn config() -> NodeConfig {
    let files = [
        ("/etc/hosts", NodeFile::always("127.0.0.1 localhost\n")),
        ("/etc/cni/net.d/10-flotilla.conflist", NodeFile::at_boot("{}\n")),
    ];
    NodeConfig {
        protocol: PROTOCOL,
        hostname: "demo".to_owned(),
        link: Link {
            name: "eth0".to_owned(),
            mtu: Some(1500),
            address: "10.213.0.2/24".parse().unwrap(),
            gateway: "10.213.0.1".parse().unwrap(),
        },
        routes: None,
        virtual_ip: VirtualIp::None,
        files: BTreeMap::from(files.map(|(path, file)| (path.to_owned(), file))),
        services: Vec::new(),
    }
}

fn with_keepalived() -> NodeConfig {
    let address = "10.213.0.254/32".parse().unwrap();
    NodeConfig { virtual_ip: VirtualIp::Keepalived { address, config: "one\n".to_owned() }, ..config() }
}

struct Node(TempDir);

impl Node {
    fn booted(config: &NodeConfig) -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        node.boot(config);
        node
    }

    fn boot(&self, config: &NodeConfig) {
        at_boot(&self.root(), config, "0a1b-2c").unwrap();
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.path().join(path)).ok()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.0.path().join(path)).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn a_boot_writes_all_files_and_nothing_unfinished_is_left() {
    let node = Node::booted(&config());
    assert_eq!(node.read("etc/hostname").unwrap(), "demo\n");
    assert_eq!(node.read("etc/machine-id").unwrap(), "0a1b2c\n");
    assert_eq!(node.read("etc/hosts").unwrap(), "127.0.0.1 localhost\n");
    assert_eq!(node.read("etc/cni/net.d/10-flotilla.conflist").unwrap(), "{}\n");
    assert_eq!(node.read("etc/flotilla/keepalived.conf"), None);
    // No process has this number.
    for name in ["hosts", ".hosts.4294967295-0.unfinished"] {
        fs::write(node.0.path().join("etc").join(name), "cut off").unwrap();
    }
    node.boot(&config());
    let mut names: Vec<_> =
        fs::read_dir(node.0.path().join("etc")).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["cni", "hostname", "hosts", "machine-id"]);
}

#[test]
fn everybody_in_the_node_can_read_its_files_whatever_an_older_flotilla_left() {
    let node = Node(tempfile::tempdir().unwrap());
    let etc = node.0.path().join("etc");
    fs::create_dir(&etc).unwrap();
    fs::write(etc.join("hosts"), "").unwrap();
    for (path, mode) in [(etc.join("hosts"), 0o600), (etc, 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    node.boot(&config());
    assert_eq!(["etc", "etc/cni", "etc/cni/net.d"].map(|path| node.mode(path)), [0o755; 3]);
    assert_eq!(["etc/hosts", "etc/cni/net.d/10-flotilla.conflist"].map(|path| node.mode(path)), [0o644; 2]);
}

#[test]
fn a_private_file_stays_private_and_bytes_are_written_as_they_are() {
    let key = NodeFile { content: Content::Bytes(vec![0, 0xff, b'\n']), ..NodeFile::always("").private() };
    let mut config = config();
    config.files.insert("/etc/flotilla/agent.key".to_owned(), key);
    let node = Node::booted(&config);
    let path = node.0.path().join("etc/flotilla/agent.key");
    assert_eq!(fs::read(&path).unwrap(), [0, 0xff, b'\n']);
    assert_eq!(node.mode("etc/flotilla/agent.key"), 0o600);
    assert_eq!(node.mode("etc/flotilla"), 0o755);
    let differing = || files::differing(&node.root(), &config).unwrap();
    assert_eq!(differing(), [""; 0]);
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(differing(), ["/etc/flotilla/agent.key"]);
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed() {
    let node = Node(tempfile::tempdir().unwrap());
    fs::create_dir(node.0.path().join("etc")).unwrap();
    let elsewhere = node.0.path().join("elsewhere");
    fs::write(&elsewhere, "kept").unwrap();
    symlink(&elsewhere, node.0.path().join("etc/hosts")).unwrap();
    node.boot(&config());
    assert_eq!(node.read("elsewhere").unwrap(), "kept");
    assert_eq!(node.read("etc/hosts").unwrap(), "127.0.0.1 localhost\n");
}

#[test]
fn the_login_of_minikube_has_the_same_home_unless_the_node_has_one() {
    let node = Node::booted(&config());
    let home = node.0.path().join("home/docker");
    assert_eq!(fs::read_link(&home).unwrap(), Path::new("/root"));
    fs::remove_file(&home).unwrap();
    fs::create_dir(&home).unwrap();
    fs::write(home.join("kept"), "kept").unwrap();
    node.boot(&config());
    assert_eq!(node.read("home/docker/kept").unwrap(), "kept");
}

#[test]
fn a_node_cannot_lead_its_boot_out_of_its_root() {
    let node = Node(tempfile::tempdir().unwrap());
    let host = tempfile::tempdir().unwrap();
    let opened = fs::File::open(host.path()).unwrap();
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    fs::create_dir(node.0.path().join("etc")).unwrap();
    symlink("/proc", node.0.path().join("proc")).unwrap();
    for target in [link.as_str(), host.path().to_str().unwrap(), "../../../../../../tmp"] {
        let _ = fs::remove_file(node.0.path().join("etc/cni"));
        symlink(target, node.0.path().join("etc/cni")).unwrap();
        // It fails, or stays below the root.
        let _ = at_boot(&node.root(), &config(), "0a-1b2c");
        assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0, "{target}");
    }
}

#[test]
fn keepalived_has_its_file_only_as_one_of_several() {
    let node = Node::booted(&with_keepalived());
    assert_eq!(node.read("etc/flotilla/keepalived.conf").unwrap(), "one\n");
    node.boot(&config());
    assert_eq!(node.read("etc/flotilla/keepalived.conf"), None);
}

#[test]
fn while_a_node_runs_only_some_files_have_to_be_right() {
    let node = Node::booted(&config());
    let config = config();
    let differing = || files::differing(&node.root(), &config).unwrap();
    assert_eq!(differing(), [""; 0]);
    fs::write(node.0.path().join("etc/cni/net.d/10-flotilla.conflist"), "an experiment").unwrap();
    assert_eq!(differing(), [""; 0]);
    fs::write(node.0.path().join("etc/hosts"), "").unwrap();
    assert_eq!(differing(), ["/etc/hosts"]);
    fs::remove_file(node.0.path().join("etc/hosts")).unwrap();
    assert_eq!(differing(), ["/etc/hosts"]);
}

#[test]
fn keepalived_starts_with_its_first_file_and_restarts_with_others() {
    let wanted = with_keepalived().virtual_ip;
    let node = Node::booted(&config());
    let change = |wanted: &VirtualIp| virtual_ip::change(&node.root(), wanted).unwrap();
    assert_eq!(change(&VirtualIp::None), None);
    assert_eq!(change(&wanted), Some(virtual_ip::Change::Start));
    node.boot(&with_keepalived());
    assert_eq!(change(&wanted), None);
    fs::write(node.0.path().join("etc/flotilla/keepalived.conf"), "older").unwrap();
    assert_eq!(change(&wanted), Some(virtual_ip::Change::Restart));
    assert_eq!(change(&VirtualIp::None), None, "it goes on until the next boot");
}

#[test]
fn a_node_boots_with_a_configuration_of_the_oldest_protocol() {
    let node = Node::booted(&config().in_protocol(OLDEST));
    assert_eq!(node.read("etc/hosts").unwrap(), "127.0.0.1 localhost\n");
}

#[test]
fn another_protocol_is_refused_before_anything_is_written() {
    let node = Node(tempfile::tempdir().unwrap());
    for number in [OLDEST - 1, PROTOCOL + 1] {
        let other = NodeConfig { protocol: number, ..config() };
        let error = at_boot(&node.root(), &other, "").unwrap_err();
        assert!(matches!(error, ConfigureError::Protocol(protocol) if protocol == number));
        assert!(check(&node.root(), &other).is_err() && apply(&node.root(), &other).is_err());
    }
    assert_eq!(fs::read_dir(node.0.path()).unwrap().count(), 0);
}
