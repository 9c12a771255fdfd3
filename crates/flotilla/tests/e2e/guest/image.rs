//! What the guest boots: a stock Debian 12 out of the archive, made on first use and kept in `~/.cache/flotilla/guest`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flotilla_linux::host::Command;

const SUITE: &str = "bookworm";

const PACKAGES: &[&str] = &[
    // Not the kernel for clouds: 6.1.192-1 of that one crashes in ext4.
    "linux-image-amd64",
    "systemd-sysv",
    "systemd-resolved",
    "libpam-systemd",
    "dbus",
    "udev",
    "kmod",
    "apparmor",
    "ufw",
    "nftables",
    "iproute2",
    "procps",
];

/// What is not read in a guest and makes its disk larger.
const LEFT_OUT: &[&str] = &["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*"];

/// A file of the guest: where, its mode, its contents.
type File = (&'static str, u32, &'static str);

/// There before any package is installed: without them the initial file system has the drivers of every machine, and takes
/// an emulated processor long to unpack.
const EARLY: &[File] = &[
    ("etc/initramfs-tools/conf.d/guest", 0o644, "MODULES=list\n"),
    ("etc/initramfs-tools/modules", 0o644, include_str!("recipe/initramfs")),
];

const LATE: &[File] = &[
    ("usr/local/sbin/session", 0o755, include_str!("recipe/session")),
    ("etc/systemd/system/session.service", 0o644, include_str!("recipe/session.service")),
    ("etc/systemd/network/uplink.network", 0o644, include_str!("recipe/uplink.network")),
    ("etc/fstab", 0o644, include_str!("recipe/fstab")),
];

const SETUP: &str = include_str!("recipe/setup");

/// What is in the cache.
pub(super) struct Image {
    directory: PathBuf,
}

impl Image {
    /// Makes the image, unless there is one by this recipe.
    pub(super) fn ensure(cache: &Path) -> Self {
        let image = Self { directory: cache.join("image") };
        let recipe = format!("{SUITE} {PACKAGES:?} {LEFT_OUT:?} {EARLY:?} {LATE:?} {SETUP}");
        let kept = image.directory.join("recipe");
        if fs::read_to_string(&kept).is_ok_and(|kept| kept == recipe) {
            return image;
        }
        let unfinished = tempfile::Builder::new().prefix("image-").tempdir_in(cache).unwrap();
        build(unfinished.path());
        fs::write(unfinished.path().join("recipe"), recipe).unwrap();
        // An older one is of no use any more.
        drop(fs::remove_dir_all(&image.directory));
        fs::rename(unfinished.keep(), &image.directory).unwrap();
        image
    }

    pub(super) fn kernel(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    pub(super) fn initramfs(&self) -> PathBuf {
        self.directory.join("initrd.img")
    }

    /// Not to be written to.
    pub(super) fn disk(&self) -> PathBuf {
        self.directory.join("disk")
    }
}

fn build(directory: &Path) {
    let path = |name: &str| directory.join(name);
    write(&path("early"), EARLY);
    write(&path("late"), LATE);
    write(directory, &[("setup", 0o755, SETUP)]);
    let hook = |when: &str, name: &str| format!("--{when}-hook=sync-in {} /", path(name).display());
    Command::new("mmdebstrap")
        .args(["--variant=minbase", "--mode=root", "--format=directory"])
        .arg("--aptopt=APT::Install-Recommends \"0\"")
        .args(LEFT_OUT.iter().map(|pattern| format!("--dpkgopt=path-exclude={pattern}")))
        .arg(format!("--include={}", PACKAGES.join(",")))
        .args([hook("essential", "early"), hook("customize", "late")])
        .arg(format!("--customize-hook={}", path("setup").display()))
        .arg(SUITE)
        .arg(path("tree"))
        .run()
        .unwrap();
    for name in ["vmlinuz", "initrd.img"] {
        // A link to the one of this version.
        fs::copy(path("tree").join(name), path(name)).unwrap();
    }
    make_disk(&path("disk"), "root", "6G", &path("tree"));
    for name in ["early", "late", "tree"] {
        fs::remove_dir_all(path(name)).unwrap();
    }
}

/// Writes files below a directory.
fn write(directory: &Path, files: &[File]) {
    for (name, mode, contents) in files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
}

/// A sparse file that holds a file system with these contents.
pub(super) fn make_disk(path: &Path, label: &str, size: &str, contents: &Path) {
    Command::new("mkfs.ext4")
        .args(["-q", "-L", label, "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "-d"])
        .args([contents, path])
        .arg(size)
        .run()
        .unwrap();
}
