//! What nodes share with all others: images, kubectl, our own binary.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flotilla_core::{Cluster, Cmd, SNAPSHOTS};
use flotilla_spec::Isolation;
use flotilla_testkit::contract::{Case, Subject};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("a_machine_cannot_change_what_all_machines_share", |subject, cluster| {
        Box::pin(a_machine_cannot_change_what_all_machines_share(subject, cluster))
    }),
    ("nothing_of_a_shared_store_stays_on_the_host", |subject, cluster| {
        Box::pin(nothing_of_a_shared_store_stays_on_the_host(subject, cluster))
    }),
    ("a_machine_of_the_last_release_keeps_its_hard_links", |subject, cluster| {
        Box::pin(a_machine_of_the_last_release_keeps_its_hard_links(subject, cluster))
    }),
];

/// Says what could be opened to write, and writes nothing: these are the real files.
const ATTACK: &str = "
program=$(find /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/*/ -type f -name kube-proxy | head -n 1)
[ -n \"$program\" ] || echo no images
for file in /usr/local/bin/kubectl /usr/local/sbin/flotilla-init /proc/1/exe $program; do
    (: >> $file) && echo $file can be written
    for mount in $file /opt/flotilla/snapshots; do mount -o remount,bind,rw $mount; mount -o remount,rw $mount; done
    (: >> $file) && echo $file can be written after a remount
    touch $file && echo $file can be touched
done 2>/dev/null
kubectl version --client >/dev/null || echo no kubectl";

async fn a_machine_cannot_change_what_all_machines_share(subject: Subject<'_>, cluster: &Cluster) {
    let node = &cluster.spec.nodes[0].name;
    subject.make_network(cluster).await;
    let machine = subject.ensure(cluster, node).await.unwrap();
    let said = machine.guest().run(Cmd::sh(ATTACK)).await.unwrap().text();
    assert_eq!(said, "");
    // Whatever is left in its own directory has one name: none in the bundle.
    let databases = disk(cluster).join("var/lib/containerd");
    let shared = files(&databases).into_iter().find(|file| fs::symlink_metadata(file).unwrap().nlink() > 1);
    assert_eq!(shared, None);
}

async fn nothing_of_a_shared_store_stays_on_the_host(subject: Subject<'_>, cluster: &Cluster) {
    let node = &cluster.spec.nodes[0].name;
    subject.make_network(cluster).await;
    let home = crate::home();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let devices = || {
        let devices = fs::read_dir("/sys/block").unwrap().flatten();
        let backed =
            devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
        backed.filter(|file| Path::new(file).starts_with(&home)).count()
    };
    let before = (mounts(), devices());
    // In a user namespace a read-only directory stays read-only: no image is needed.
    let is_image =
        cluster.spec.nodes[0].isolation == Isolation::None && flotilla_linux::erofs::is_supported();
    for remove in [false, true] {
        subject.ensure(cluster, node).await.unwrap();
        assert_eq!(mounts(), before.0, "it is mounted in the machine only");
        assert!(devices() >= usize::from(is_image), "the image is mounted");
        if remove {
            subject.remove_node(cluster, node).await;
        } else {
            subject.stop_node(cluster, node).await;
        }
        // The kernel takes namespaces apart in its own time.
        let gone = || if devices() == before.1 { Ok(()) } else { Err(()) };
        flotilla_linux::poll::until(std::time::Duration::from_secs(5), gone, |()| false).unwrap();
    }
}

async fn a_machine_of_the_last_release_keeps_its_hard_links(subject: Subject<'_>, cluster: &Cluster) {
    let node = &cluster.spec.nodes[0].name;
    subject.make_network(cluster).await;
    subject.ensure(cluster, node).await.unwrap();
    subject.stop_node(cluster, node).await;
    let disk = disk(cluster);
    fs::remove_file(disk.join("image-store")).unwrap();
    let bundle = crate::home().join("bundles").join(fs::read_to_string(disk.join("bundle")).unwrap().trim());
    let (snapshots, own) = (bundle.join(SNAPSHOTS), disk.join("var/lib/containerd"));
    let own = own.join(Path::new(SNAPSHOTS).strip_prefix("store").unwrap());
    for link in fs::read_dir(&own).unwrap() {
        fs::remove_file(link.unwrap().path()).unwrap();
    }
    for file in files(&snapshots) {
        let target = own.join(file.strip_prefix(&snapshots).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::hard_link(&file, &target).unwrap();
    }
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let machine = subject.ensure(cluster, node).await.unwrap();
    let look = format!(
        "{} ! -e /opt/flotilla/snapshots/1",
        "ls /var/lib/containerd/*/snapshots/*/fs/coredns && test"
    );
    assert!(machine.guest().run(Cmd::sh(&look)).await.unwrap().text().contains("coredns"));
    subject.remove_node(cluster, node).await;
    assert!(!disk.exists());
}

fn disk(cluster: &Cluster) -> PathBuf {
    crate::home().join("clusters").join(cluster.name().as_ref()).join("nodes/te-contract")
}

/// All files below a directory, without following links.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(path) = todo.pop() {
        let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        for entry in entries {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => todo.push(entry.path()),
                _ => found.push(entry.path()),
            }
        }
    }
    found
}
