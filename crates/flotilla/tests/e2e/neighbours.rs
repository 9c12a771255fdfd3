//! Whoever else lives on the host: firewalls that drop what they do not know, name servers on the loopback link, none.
//!
//! All of it in namespaces of the test's own, which Flotilla takes for the host.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use flotilla_testkit::image;
use tempfile::TempDir;

use crate::lab::{self, Cluster, Namespaces, PATIENCE};

/// The firewall of a host with Docker, and another one beside it, which refuses by its last rules as RHEL's does. Neither
/// lets anything through that it does not know.
const FIREWALL: &str = "
table ip filter {
    chain DOCKER-USER { ip saddr 203.0.113.9 drop; return; }
    chain FORWARD {
        type filter hook forward priority filter; policy drop;
        jump DOCKER-USER
        iifname docker0 accept
    }
}
table inet guard {
    chain forward {
        type filter hook forward priority 10; policy accept;
        ct state established,related accept
        tcp dport 22 accept
        reject with icmpx admin-prohibited
    }
    chain input {
        type filter hook input priority 10; policy accept;
        ct state established,related accept
        iifname lo accept
        reject with icmpx admin-prohibited
    }
}
";

/// Answers one name of the world.
fn corefile(address: &str, name: &str) -> String {
    format!(".:53 {{\n    bind {address}\n    hosts {{\n        192.0.2.7 {name}\n    }}\n}}\n")
}

/// A host in namespaces, and a server in the world outside of it. Gone when dropped.
struct World {
    host: Namespaces,
    outside: Namespaces,
    /// The servers.
    programs: Vec<Child>,
    directory: TempDir,
}

impl World {
    /// `resolv_conf` is what the host's says.
    fn new(resolv_conf: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("flotilla-e2e-").tempdir().unwrap();
        fs::write(directory.path().join("resolv.conf"), resolv_conf).unwrap();
        let mut world =
            Self { host: Namespaces::new(), outside: Namespaces::new(), programs: Vec::new(), directory };
        let (outside, file) = (world.outside.id(), world.path("resolv.conf"));
        world.on_host(&format!(
            "mount --bind {} /etc/resolv.conf
            ip link set lo up
            ip link add uplink type veth peer name eth0 netns {outside}
            ip address add 192.0.2.2/24 dev uplink
            ip link set uplink up
            ip route add default via 192.0.2.1",
            file.display()
        ));
        world.outside.run("ip link set lo up; ip address add 192.0.2.1/24 dev eth0; ip link set eth0 up");
        // It knows no way to the cluster: it can answer the host alone.
        let server = "exec chroot $ROOT /bin/busybox httpd -f -p 192.0.2.1:8080 -h /etc";
        world.programs.push(world.outside.shell(server).spawn().unwrap());
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn on_host(&self, script: &str) -> String {
        self.host.run(script)
    }

    /// What the host's resolv.conf says from now on, as after a change of network.
    fn set_resolv_conf(&self, text: &str) {
        fs::write(self.path("resolv.conf"), text).unwrap();
    }

    /// A name server that knows one name, on the host or outside of it: the bundle's own `CoreDNS`.
    fn start_name_server(&mut self, place: fn(&Self) -> &Namespaces, address: &str, name: &str) {
        let file = self.path(name);
        fs::write(&file, corefile(address, name)).unwrap();
        let script =
            "exec $(ls $ROOT/../store/io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs/coredns)";
        let script = format!("{script} -conf {}", file.display());
        let server = place(self).shell(&script).stdout(Stdio::null()).spawn().unwrap();
        self.programs.push(server);
    }

    /// Like the firewall's own service: deletes its tables, whatever they contain, and creates them again.
    fn load_firewall(&self) {
        let text = format!(
            "table ip filter\ndelete table ip filter\ntable inet guard\ndelete table inet guard\n{FIREWALL}"
        );
        fs::write(self.path("firewall"), text).unwrap();
        self.on_host(&format!("chroot $ROOT nft -f - < {}", self.path("firewall").display()));
    }

    fn rules(&self) -> String {
        self.on_host("chroot $ROOT nft -s list ruleset")
    }

    /// A cluster in it that can make pods with a shell.
    fn start(&self, name: &str) -> Cluster {
        let cluster = Cluster::with_host_of(self.host.id(), lab::real_home(), name);
        cluster.start(&["--wait", "all"]);
        cluster.load_image(&image::busybox(&lab::bundle().join("rootfs/bin/busybox")));
        cluster.apply(&format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: shell}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: '{}', imagePullPolicy: Never, command: [sleep, '100000']}}
",
            image::BUSYBOX
        ));
        cluster.wait_for("condition=Ready", &["pod", "shell"]);
        cluster
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.programs {
            // They may have ended by themselves.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a command in the pod until it goes well.
fn in_pod(cluster: &Cluster, command: &[&str]) -> String {
    lab::wait_until(&format!("{command:?} in a pod"), PATIENCE, || {
        cluster.try_kubectl(&[&["exec", "shell", "--"], command].concat())
    })
}

pub(crate) fn pods_reach_the_world_through_firewalls_that_drop_and_a_name_server_on_the_loopback_link() {
    let mut world = World::new("nameserver 127.0.0.1\n");
    world.load_firewall();
    world.start_name_server(|world| &world.host, "127.0.0.1", "answer.test");
    let rules = world.rules();
    assert_eq!(rules.matches("policy drop").count(), 1, "{rules}");
    let cluster = world.start("tf-neighbours");

    // Not by wget's own -T, at which a static busybox crashes.
    let fetch = ["busybox", "timeout", "5", "wget", "-qO-", "http://192.0.2.1:8080/os-release"];
    assert!(in_pod(&cluster, &fetch).contains("NAME="));
    assert!(in_pod(&cluster, &["nslookup", "answer.test"]).contains("192.0.2.7"));
    in_pod(&cluster, &["nslookup", "kubernetes.default.svc.cluster.local"]);

    world.load_firewall();
    let blocked = cluster.try_kubectl(&[&["exec", "shell", "--"], &fetch[..]].concat());
    assert!(blocked.is_err(), "nothing was in the way: {blocked:?}");
    cluster.start(&[]);
    in_pod(&cluster, &fetch);
    assert!(cluster.start(&[]).contains("nothing to do"));

    // Their rules let packets pass to and from the bridge: that others do not get in is our own table's doing.
    let address = cluster.succeed(&["ip"]).trim().to_owned();
    let knock = format!("exec 3<>/dev/tcp/{address}/6443");
    world.outside.run(&format!("ip route add {address} via 192.0.2.2"));
    world.on_host(&format!("bash -c '{knock}'"));
    let got_in = world.outside.run(&format!("timeout 3 bash -c '{knock}' 2>&1 && echo in || echo out"));
    assert!(got_in.ends_with("out\n"), "{got_in}");

    // Another network, with a name server of its own.
    world.start_name_server(|world| &world.outside, "192.0.2.1", "roaming.test");
    world.set_resolv_conf("nameserver 192.0.2.1\n");
    cluster.start(&[]);
    assert!(in_pod(&cluster, &["nslookup", "roaming.test"]).contains("192.0.2.7"));
    assert!(cluster.start(&[]).contains("nothing to do"));

    cluster.succeed(&["delete"]);
    assert_eq!(world.rules(), rules, "the rules of others are as they were");
    let links = world.on_host("ip -o link; ip route");
    assert!(!links.contains("flo"), "{links}");
}

pub(crate) fn without_a_name_server_the_names_of_the_cluster_are_known_all_the_same() {
    let world = World::new("");
    let cluster = world.start("tf-nameless");
    cluster.wait_for("condition=Ready", &["pod", "-n", "kube-system", "-l", "k8s-app=kube-dns"]);
    in_pod(&cluster, &["nslookup", "kubernetes.default.svc.cluster.local"]);
}
