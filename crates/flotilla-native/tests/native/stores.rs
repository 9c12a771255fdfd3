//! What nodes share with all others: images, kubectl, our own binary.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flotilla_core::{BundleLayout, Cluster, Cmd};
use flotilla_spec::Isolation;
use flotilla_testkit::contract::{Case, Subject, cases};

use crate::machine_directory;

pub(crate) const CASES: &[(&str, Case)] = cases![
    a_machine_cannot_change_what_all_machines_share,
    nothing_of_a_shared_store_stays_on_the_host,
    a_machine_of_the_last_release_keeps_its_hard_links,
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
    let machine = subject.make(cluster).await;
    let said = machine.guest().run(Cmd::sh(ATTACK)).await.unwrap().text();
    assert_eq!(said, "");
    // Whatever is left in its own directory has one name: none in the bundle.
    let databases = machine_directory(cluster).join("var/lib/containerd");
    let shared = files(&databases).into_iter().find(|file| fs::symlink_metadata(file).unwrap().nlink() > 1);
    assert_eq!(shared, None);
}

async fn nothing_of_a_shared_store_stays_on_the_host(subject: Subject<'_>, cluster: &Cluster) {
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
        subject.make(cluster).await;
        assert_eq!(mounts(), before.0, "it is mounted in the machine only");
        assert!(devices() >= usize::from(is_image), "the image is mounted");
        if remove {
            subject.remove(cluster).await;
        } else {
            subject.stop(cluster).await;
        }
        // The kernel takes namespaces apart in its own time.
        let gone = || if devices() == before.1 { Ok(()) } else { Err(()) };
        flotilla_linux::poll::until(std::time::Duration::from_secs(5), gone, |()| false).unwrap();
    }
}

async fn a_machine_of_the_last_release_keeps_its_hard_links(subject: Subject<'_>, cluster: &Cluster) {
    subject.make(cluster).await;
    subject.stop(cluster).await;
    let disk = machine_directory(cluster);
    fs::remove_file(disk.join("image-store")).unwrap();
    let digest = fs::read_to_string(disk.join("bundle")).unwrap();
    let bundle = BundleLayout::of(&crate::home(), digest.trim());
    let (snapshots, own) = (bundle.snapshots(), disk.join("var/lib/containerd"));
    let own = own.join(snapshots.strip_prefix(bundle.store()).unwrap());
    for link in fs::read_dir(&own).unwrap() {
        fs::remove_file(link.unwrap().path()).unwrap();
    }
    for file in files(&snapshots) {
        let target = own.join(file.strip_prefix(&snapshots).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::hard_link(&file, &target).unwrap();
    }
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let machine = subject.make(cluster).await;
    let look = format!(
        "{} ! -e /opt/flotilla/snapshots/1",
        "ls /var/lib/containerd/*/snapshots/*/fs/coredns && test"
    );
    assert!(machine.guest().run(Cmd::sh(&look)).await.unwrap().text().contains("coredns"));
    subject.remove(cluster).await;
    assert!(!disk.exists());
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
