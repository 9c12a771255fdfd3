//! Files of a node that commands of the host read, write or remove.
//!
//! All traps are set at once, and the node is stopped, started and deleted once. The worker does not outlive it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::field::{Field, reached};
use super::watched::Watched;
use super::{Attack, Stopped, Tried};

const HANDLE: &str = "files of a node are opened below a directory handle, plain ones only";

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "links, pipes, devices and sparse files in the logs of a stopped node",
        none: Stopped,
        user: Stopped,
        why: HANDLE,
        run: |field| {
            set_traps(field);
            field.cluster.succeed(&["node", "stop", &field.worker]);
            let logs = Watched::run(field.cluster.command(&["node", "logs", &field.worker]));
            if logs.output.contains(SECRET) {
                return Tried::Works("a file of the host is shown".to_owned());
            }
            logs.tried()
        },
    },
    Attack {
        name: "pipes and links where `status` and `node list` look",
        none: Stopped,
        user: Stopped,
        why: HANDLE,
        run: |field| {
            let seen = [&["status"][..], &["node", "list"]]
                .map(|args| Watched::run(field.cluster.command(args)).tried());
            let [Tried::Stopped(one), Tried::Stopped(two)] = seen else {
                return Tried::Works(format!("{seen:?}"));
            };
            Tried::Stopped(format!("{one}; {two}"))
        },
    },
    Attack {
        name: "links where a node's boot writes",
        none: Stopped,
        user: Stopped,
        why: "a node writes its files itself, in its own root",
        run: |field| {
            let before = content(field);
            let start = Watched::run(field.cluster.command(&[
                "node",
                "start",
                &field.worker,
                "--wait-timeout",
                "15s",
            ]));
            let after = content(field);
            if before != after {
                return Tried::Works(format!("{before:?} is now {after:?}"));
            }
            match start.tried() {
                Tried::Stopped(how) => Tried::Stopped(format!("{how}: {}", last_line(&start.output))),
                tried => tried,
            }
        },
    },
    Attack {
        name: "30,000 nested directories, odd names, pipes and devices, then `node delete`",
        none: Stopped,
        user: Stopped,
        why: "removal is iterative and follows no links",
        run: |field| {
            let before = content(field);
            let delete = Watched::run(field.cluster.command(&["node", "delete", &field.worker, "--force"]));
            if let Tried::Works(how) = delete.tried() {
                return Tried::Works(how);
            }
            let is_left = field.disk().exists();
            let is_changed = before != content(field);
            reached(
                is_left || is_changed,
                format!("left: {is_left}, changed: {is_changed}; {}", last_line(&delete.output)),
            )
        },
    },
];

/// In each file that a trap leads to.
const SECRET: &str = "a secret of the host";

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

/// The directory of the host that traps lead to.
fn bait(field: &Field) -> PathBuf {
    field.host.path().join("bait")
}

/// All that is in it, whatever has become of it.
fn content(field: &Field) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![bait(field)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path.clone());
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            found.insert(path, text);
        }
    }
    found
}

/// By absolute and by relative links: each would lead to the bait if the host resolved it.
fn set_traps(field: &Field) {
    let bait = bait(field);
    for name in ["conf.d", "net.d", "flotilla"] {
        fs::create_dir_all(bait.join(name)).unwrap();
    }
    for name in [
        "kubelet.log",
        "containerd.log",
        "0.log",
        "joined",
        "hosts",
        "file",
        "conf.d/10-attack.toml",
        "net.d/10-attack.conflist",
    ] {
        fs::write(bait.join(name), SECRET).unwrap();
    }
    let up = "../../../../../../../../../../../../../..";
    let bait = bait.display();
    field.ssh(&format!(
        r"
        link() {{ rm -rf $2; ln -s $1 $2; }}
        for file in hostname resolv.conf machine-id; do link {bait}/file /etc/$file; done
        link {up}{bait}/hosts /etc/hosts
        mkdir -p /etc/containerd /etc/cni
        link {bait}/conf.d /etc/containerd/conf.d; link {up}{bait}/net.d /etc/cni/net.d
        link {bait} /usr/local/share; link {bait} /opt/attack
        rm -rf /var/lib/flotilla; mkdir /var/lib/flotilla; mkfifo /var/lib/flotilla/joined
        mkdir -p /etc/keepalived; link {bait}/file /etc/keepalived/keepalived.conf

        logs=/var/log/pods
        for name in link up pipe sparse zero; do mkdir -p $logs/kube-system_$name/main; done
        ln -s {bait}/0.log $logs/kube-system_link/main/0.log
        ln -s {up}{bait} $logs/kube-system_up/out
        mkfifo $logs/kube-system_pipe/main/0.log; mknod $logs/kube-system_zero/main/0.log c 1 5
        truncate -s 1T $logs/kube-system_sparse/main/0.log
        rm -rf /var/log/flotilla; ln -s {bait} /var/log/flotilla

        mkdir -p /var/odd /var/odd/closed; cd /var/odd; mkfifo pipe; mknod zero c 1 5; mknod disk b 7 0; ln -s / root; ln -s {bait} bait
        touch -- -rf '*' 'a
b' {long}; chmod 000 closed; attack nest /var/odd 30000
        mkdir /var/many; cd /var/many; for i in $(seq 3000); do : > $i; done",
        long = "x".repeat(255),
    ));
}
