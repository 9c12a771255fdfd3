//! The node's root file system: what every node of a version has in common, read-only.

use flotilla_linux::host::Command;

use crate::error::Result;
use crate::part::Parts;
use crate::recipe;
use crate::tree::Tree;

/// Programs of ours for the node. Where a part has more (the servers in Kubernetes), the rest is for images.
const PROGRAMS: [(&str, &str); 9] = [
    ("containerd", "containerd"),
    ("containerd", "containerd-shim-runc-v2"),
    ("containerd", "ctr"),
    ("crictl", "crictl"),
    ("etcd", "etcdctl"),
    ("etcd", "etcdutl"),
    ("kubernetes", "kubeadm"),
    ("kubernetes", "kubelet"),
    ("runc", "runc"),
];
/// Names under which the packet filter's one program is called.
pub(crate) const IPTABLES: [&str; 6] =
    ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];
/// What busybox offers and a node must not have: it is not a system of its own packages and logins.
const UNWANTED: [&str; 8] = ["busybox", "init", "linuxrc", "dpkg", "dpkg-deb", "rpm", "getty", "login"];
/// Mount points and directories that the node's programs expect.
const DIRECTORIES: [(&str, u32); 13] = [
    ("/dev", 0o755),
    ("/etc/cni/net.d", 0o755),
    ("/etc/containerd/conf.d", 0o755),
    ("/etc/kubernetes/manifests", 0o755),
    ("/home", 0o755),
    ("/mnt", 0o755),
    ("/proc", 0o555),
    ("/root", 0o700),
    ("/run", 0o755),
    ("/sys", 0o555),
    ("/tmp", 0o1777),
    ("/usr/libexec", 0o755),
    ("/var", 0o755),
];

/// What the host runs on a cluster's behalf: `bin/` of a bundle.
pub(crate) fn host_programs(parts: &Parts) -> Tree {
    let mut tree = Tree::default();
    tree.file("kubectl", parts.get("kubernetes").path("kubectl"));
    tree
}

/// Describes the root. `pause_image` is the name kubeadm has for the sandbox image.
pub(crate) fn tree(parts: &Parts, pause_image: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    let userland = parts.get("userland");
    tree.overlay(&userland.path("root"))?;
    for (directory, mode) in DIRECTORIES {
        tree.dir(directory, mode);
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        tree.link(name, format!("usr/{name}"));
    }
    tree.link("/etc/mtab", "../proc/self/mounts");
    for (part, program) in PROGRAMS {
        tree.file(format!("/usr/local/bin/{program}"), parts.get(part).path(program));
    }
    let plugins = parts.get("cni-plugins");
    for entry in &plugins.record.files {
        tree.file(format!("/opt/cni/bin/{}", entry.path), plugins.path(&entry.path));
    }
    for file in recipe::rootfs() {
        let text = String::from_utf8_lossy(&file.bytes).replace("{pause-image}", pause_image);
        tree.text(file.name, text);
    }
    for name in IPTABLES {
        tree.link(format!("/usr/sbin/{name}"), "xtables-nft-multi");
    }
    tree.link("/usr/bin/sh", "bash");
    let applets = Command::new(userland.path("root/usr/bin/busybox")).arg("--list").run()?;
    for applet in applets.text().lines().filter(|applet| !UNWANTED.contains(applet)) {
        let taken =
            ["usr/bin", "usr/sbin"].iter().any(|directory| tree.contains(format!("{directory}/{applet}")));
        if !taken {
            tree.link(format!("/usr/bin/{applet}"), "busybox");
        }
    }
    Ok(tree)
}
