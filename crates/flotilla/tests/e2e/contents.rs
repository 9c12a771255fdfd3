//! What is in a bundle, and what is not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flotilla_linux::sandbox::{self, Bind, Spec};
use serde_json::Value;

use crate::lab;

const MEGABYTE: u64 = 1_000_000;

fn show() -> Value {
    serde_json::from_str(&lab::succeed(&lab::real_home(), &["bundle", "show", lab::VERSION, "-o", "json"]))
        .unwrap()
}

/// Runs a command line in the bundle's root, with nothing else there.
fn in_root(line: &str) -> String {
    in_root_with(Vec::new(), line)
}

fn in_root_with(binds: Vec<Bind>, line: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let spec = Spec {
        root: lab::bundle().join("rootfs"),
        scratch: scratch.path().to_owned(),
        binds,
        hostname: "contents".into(),
        cgroup: None,
        argv: ["/bin/sh", "-c", line].map(str::to_owned).into(),
        env: Vec::new(),
    };
    let output = sandbox::command_with(Path::new(env!("CARGO_BIN_EXE_flotilla")), &spec).run();
    output.unwrap_or_else(|error| panic!("{line}: {error}")).text()
}

/// A program of an image, as it is in the store.
fn unpacked(program: &str) -> PathBuf {
    let snapshots = lab::bundle().join("store/io.containerd.snapshotter.v1.overlayfs/snapshots");
    let all = fs::read_dir(&snapshots).unwrap().flatten().map(|item| item.path().join("fs").join(program));
    all.into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no {program} in {}", snapshots.display()))
}

pub(crate) fn the_root_is_small_and_no_byte_is_there_twice() {
    lab::bundle();
    let sizes = show()["sizes"].clone();
    let size = |name: &str| sizes[name].as_u64().unwrap();
    assert!(size("rootfs") < 450 * MEGABYTE, "{sizes}");
    assert!(size("on_disk") < size("bin") + size("rootfs") + size("store"), "{sizes}");
    let bundle = lab::bundle();
    let inode = |path: &Path| fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).ino();
    for program in ["usr/local/bin/etcdctl", "usr/sbin/nft"] {
        assert_eq!(inode(&bundle.join("rootfs").join(program)), inode(&unpacked(program)), "{program}");
    }
    let blobs = bundle.join("store/io.containerd.content.v1.content/blobs/sha256");
    let layers =
        fs::read_dir(blobs).unwrap().flatten().filter(|blob| blob.metadata().unwrap().len() > 100_000);
    assert_eq!(layers.count(), 0, "layers are beside what was unpacked from them");
}

pub(crate) fn programs_say_the_versions_they_were_built_as() {
    lab::bundle();
    assert_eq!(in_root("kubeadm version -o short").trim(), lab::VERSION);
    assert_eq!(in_root("kubelet --version").trim(), format!("Kubernetes {}", lab::VERSION));
    for (line, wanted) in [
        ("containerd --version", "v2.4.2"),
        ("ctr --version", "v2.4.2"),
        ("runc --version", "runc version 1.5.2"),
        ("runc features", "seccomp"),
        ("crictl --version", "v1.36.0"),
        ("etcdctl version", "etcdctl version: 3.7.0"),
        ("etcdutl version", "etcdutl version: 3.7.0"),
        ("/opt/cni/bin/ptp 2>&1 </dev/null || true", "v1.9.1"),
    ] {
        assert!(in_root(line).contains(wanted), "{line}: {}", in_root(line));
    }
    let kubectl = lab::bundle().join("bin/kubectl");
    let version =
        flotilla_linux::host::Command::new(kubectl).args(["version", "--client"]).run().unwrap().text();
    assert!(version.contains(lab::VERSION), "{version}");
}

pub(crate) fn a_person_who_logs_in_finds_the_usual_programs() {
    for line in [
        "bash -c true",
        "ip link",
        "ps aux",
        "vi --help 2>&1",
        "curl --version",
        "less --version",
        "iptables --version",
        "iptables -t nat -S",
        "ip6tables-save",
        "nft list ruleset",
        "ss -V",
        "tc -V",
        "TERM=linux top -bn1",
        "mount --version",
        "losetup --version",
        "conntrack --version",
        "keepalived --version 2>&1",
        "sysctl --version",
        "test -s /etc/ssl/certs/ca-certificates.crt",
        "test -s /usr/share/doc/bash/copyright -a -s /usr/share/doc/libc6/copyright",
        "test -s /usr/share/common-licenses/GPL-2",
        "iptables -A INPUT -m comment --comment x -j ACCEPT",
        "iptables -t nat -A POSTROUTING -j MASQUERADE --random-fully",
    ] {
        in_root(line);
    }
}

pub(crate) fn the_manifest_names_every_source_and_its_checksum() {
    lab::bundle();
    let manifest = show();
    for component in manifest["components"].as_array().unwrap() {
        match component["from"].as_str().unwrap() {
            "go-module" => assert!(component["sum"].as_str().unwrap().starts_with("h1:"), "{component}"),
            "debian" => {
                for package in component["packages"].as_array().unwrap() {
                    assert_eq!(package["sha256"].as_str().unwrap().len(), 64, "{package}");
                }
            }
            "own-program" => assert_eq!(component["recipe"].as_str().unwrap().len(), 64),
            other => panic!("{other}"),
        }
    }
    let names: Vec<&str> =
        manifest["components"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["cni-plugins", "containerd", "coredns", "crictl", "etcd", "kubernetes", "pause", "runc", "userland"]
    );
}

/// Pause as the first process of a namespace, which is what it is in a pod: an orphan ends up with it.
const PAUSE: &str = r#"
unshare --fork --pid /pause & holder=$!
for try in $(seq 100); do
  read -r pause < /proc/$holder/task/$holder/children && break
  sleep 0.02
done
nsenter --target "$pause" --pid sh -c '(sleep 0.1 &)'
sleep 0.4
ps -eo ppid=,stat= | awk -v pause="$pause" '$1 == pause { print "left", $0 }'
kill -TERM "$pause"
wait $holder
echo "ended with $?"
"#;

pub(crate) fn pause_reaps_orphans_ends_when_told_and_says_its_version() {
    let pause = || vec![Bind { source: unpacked("pause"), target: "/pause".into(), read_only: true }];
    assert_eq!(in_root_with(pause(), PAUSE), "ended with 0");
    assert_eq!(in_root_with(pause(), "/pause -v"), "pause 3.10.2");
}
