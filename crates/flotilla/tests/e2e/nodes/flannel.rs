//! A pod network that is not ours: flannel itself, built from its source as the Go module proxy serves it.
//!
//! Its CNI plugin has a repository of its own by now, which the proxy does not serve. It is built from where it was
//! before, the plugins of the CNI project.

use std::path::{Path, PathBuf};

use flotilla_linux::host::Command;
use flotilla_testkit::image::Image;

use super::fleet::{self, POD_PORT};
use crate::lab::{self, Cluster, PATIENCE, Running, wait_until};

/// The images of the manifest that `--cni flannel` applies.
const FLANNEL: &str = "ghcr.io/flannel-io/flannel:v0.26.7";
const PLUGIN: &str = "ghcr.io/flannel-io/flannel-cni-plugin:v1.6.2-flannel1";

/// Starts a cluster like a user without a registry: the nodes get the images as soon as they run.
pub(super) fn start(cluster: &Cluster, nodes: &[String]) {
    let images = [flannel(), plugin()];
    let count = nodes.len().to_string();
    let start = Running::start(&mut cluster.command(&["start", "--cni", "flannel", "--nodes", &count]));
    for node in nodes {
        for image in &images {
            wait_until(&format!("{node} takes an image"), PATIENCE, || fleet::load(cluster, node, image));
        }
    }
    let (status, last) = start.finish();
    assert_eq!(status, 0, "{last}");
}

pub(super) fn pods_of_other_nodes_are_behind_flannels_link(cluster: &Cluster) {
    for node in fleet::names(cluster) {
        let link = fleet::ssh(cluster, &node, "ip -d link show flannel.1");
        assert!(link.contains("vxlan id 1 "), "{node}: {link}");
        let routes = fleet::ssh(cluster, &node, "ip route");
        for other in fleet::list(cluster).iter().filter(|other| other["Name"] != node.as_str()) {
            let route = format!("{} via ", other["PodCIDR"].as_str().unwrap());
            let route = routes.lines().find(|line| line.starts_with(&route));
            assert!(route.is_some_and(|route| route.contains("dev flannel.1")), "{node}: {routes}");
        }
        let ours = fleet::ssh(cluster, &node, "ls /etc/cni/net.d");
        assert_eq!(ours, "10-flannel.conflist", "{node}");
    }
}

pub(super) fn stopped_and_started_it_is_back(cluster: &Cluster) {
    cluster.succeed(&["stop"]);
    cluster.start(&[]);
    // The API reports the old state of pods until their nodes report again.
    wait_until("every pod reaches every other", PATIENCE, || {
        let probes = fleet::probes(cluster);
        for (from, to) in probes.iter().flat_map(|from| probes.iter().map(move |to| (from, to))) {
            let line = format!("busybox timeout 10 wget -qO- http://{}:{POD_PORT}", to.ip);
            let answer = from.run(cluster, &line)?;
            if answer != to.node {
                return Err(format!("{} asked for {}: {answer}", from.node, to.node));
            }
        }
        Ok(())
    });
}

/// What upstream's image has of the world beside flannel itself, `kube-proxy`'s has as well.
fn flannel() -> Vec<u8> {
    let mut image = Image::with_shell(&fleet::busybox());
    let filter = packet_filter();
    for directory in ["usr/lib", "usr/lib64", "usr/sbin"] {
        image.folder(directory, &filter.join(directory));
    }
    for directory in ["lib", "lib64", "sbin"] {
        image.link(directory, &format!("usr/{directory}"));
    }
    let version = "-X github.com/flannel-io/flannel/pkg/version.Version=v0.26.7";
    // One of its backends is written in C.
    let flags = format!("-ldflags=-s -w -extldflags -static {version}");
    let how = ["-tags=netgo,osusergo", &flags, "github.com/flannel-io/flannel"];
    image.program("opt/bin/flanneld", &build("flanneld", "1", &how));
    image.archive(FLANNEL)
}

fn plugin() -> Vec<u8> {
    let mut image = Image::with_shell(&fleet::busybox());
    let how = ["-ldflags=-s -w", "github.com/containernetworking/plugins/plugins/meta/flannel"];
    image.program("flannel", &build("plugin", "0", &how));
    image.archive(PLUGIN)
}

/// The root of the bundle's image that has `iptables` and `nft` with all that they need.
fn packet_filter() -> PathBuf {
    let snapshots = lab::bundle().join("store/io.containerd.snapshotter.v1.overlayfs/snapshots");
    let roots = snapshots.read_dir().unwrap().map(|entry| entry.unwrap().path().join("fs"));
    let mut proxies = roots.filter(|root| root.join("usr/local/bin/kube-proxy").exists());
    proxies.next().unwrap()
}

/// Builds what a module of ours pins, with Go's caches of the state directory. A minute the first time.
fn build(module: &str, cgo: &str, how: &[&str]) -> PathBuf {
    let cache = lab::real_home().join("cache");
    let program = cache.join("flannel").join(module);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/flannel").join(module);
    Command::new("go")
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .args(how)
        .current_dir(directory)
        .env("CGO_ENABLED", cgo)
        .env("GOWORK", "off")
        .env("GOFLAGS", "-modcacherw")
        .env("GOMODCACHE", cache.join("go/mod"))
        .env("GOCACHE", cache.join("go/build"))
        .run()
        .unwrap();
    program
}
