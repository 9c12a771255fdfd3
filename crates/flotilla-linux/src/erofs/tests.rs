use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, lsetxattr, mknodat};

use super::*;

/// A directory with all that layers of images may hold.
fn layers(dir: &Path) -> PathBuf {
    let layers = dir.join("layers");
    fs::create_dir_all(layers.join("1/fs/deep/deeper")).unwrap();
    fs::create_dir_all(layers.join("2/fs/many")).unwrap();
    fs::write(layers.join("1/fs/deep/program"), vec![7; 10_000]).unwrap();
    fs::set_permissions(layers.join("1/fs/deep/program"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(layers.join("1/fs/deep/program"), layers.join("2/fs/again")).unwrap();
    fs::write(layers.join("1/fs/empty"), "").unwrap();
    fs::write(layers.join("1/fs/block"), vec![1; 4096]).unwrap();
    fs::write(layers.join("1/fs/block-and-one"), vec![2; 4097]).unwrap();
    symlink("deep/program", layers.join("1/fs/link")).unwrap();
    symlink("x".repeat(4000), layers.join("1/fs/long-link")).unwrap();
    // Sorted before the dots, which are sorted among all names.
    fs::write(layers.join("1/fs/!"), "").unwrap();
    for number in 0..1000 {
        let name = format!("{}-{number}", "n".repeat(number % 240));
        fs::write(layers.join("2/fs/many").join(name), number.to_string()).unwrap();
    }
    layers
}

fn attribute(path: &Path, name: &str) -> Vec<u8> {
    let mut value = Vec::with_capacity(64 << 10);
    let _ = lgetxattr(path, name, spare_capacity(&mut value));
    value
}

/// Everything below a directory that an image keeps.
fn listing(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let kind = metadata.file_type();
            let content = if kind.is_file() {
                format!("{:?}", fs::read(&path).unwrap())
            } else if kind.is_symlink() {
                format!("{:?}", fs::read_link(&path).unwrap())
            } else {
                String::new()
            };
            let (mode, owner) = (metadata.mode(), (metadata.uid(), metadata.gid()));
            let (names, device) = (metadata.nlink(), metadata.rdev());
            let marks =
                ["trusted.overlay.opaque", "security.capability", "user.note", "trusted.overlay.origin"]
                    .map(|name| attribute(&path, name));
            let name = path.strip_prefix(root).unwrap().to_owned();
            found.insert(format!("{name:?} {mode:o} {owner:?} {names} {device} {marks:?} {content}"));
            if kind.is_dir() {
                todo.push(path);
            }
        }
    }
    found
}

/// The mounted image as a path.
fn shown(mounted: &Detached) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", mounted.descriptor().as_raw_fd()))
}

/// Root on a kernel that has EROFS.
fn can_mount() -> bool {
    let can = flotilla_testkit::is_root() && is_supported();
    if !can {
        flotilla_testkit::skip("mounting needs root, EROFS and loop devices");
    }
    can
}

#[test]
fn the_kernel_shows_in_an_image_what_is_in_the_directory() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (layers, image) = (layers(dir.path()), dir.path().join("image"));
    // A mark of a deleted file, a pipe, a device with large numbers.
    mknodat(CWD, layers.join("2/fs/gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    mknodat(CWD, layers.join("2/fs/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let disk = rustix::fs::makedev(259, 70_000);
    mknodat(CWD, layers.join("2/fs/disk"), FileType::BlockDevice, Mode::RUSR, disk).unwrap();
    std::os::unix::fs::chown(layers.join("1/fs/block"), Some(70_000), Some(65_534)).unwrap();
    let set = |name: &str, attribute: &str, value: &[u8]| {
        lsetxattr(layers.join(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    set("1/fs/deep", "trusted.overlay.opaque", b"y");
    // CAP_NET_RAW, permitted and effective.
    let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set("1/fs/deep/program", "security.capability", &capability);
    set("1/fs/empty", "user.note", &[9; 3000]);
    let before = listing(&layers);
    set("1/fs/deep", "trusted.overlay.origin", b"a handle of this file system");

    ensure(&layers, &image, "0123456789abcdef").unwrap();
    let mounted = mount(&image).unwrap();
    let seen = listing(&shown(&mounted));
    let differs: Vec<_> = before.symmetric_difference(&seen).collect();
    assert!(differs.is_empty(), "{differs:#?}");
    let names = |root: &Path| fs::metadata(root).unwrap().nlink();
    assert_eq!(names(&shown(&mounted)), names(&layers));
    assert!(fs::symlink_metadata(shown(&mounted).join("2/fs/gone")).unwrap().file_type().is_char_device());
    let inode = |name: &str| fs::metadata(shown(&mounted).join(name)).unwrap().ino();
    assert_eq!(inode("1/fs/deep/program"), inode("2/fs/again"), "one file by two names");
    let written = fs::write(shown(&mounted).join("1/fs/empty"), "changed").unwrap_err();
    assert_eq!(written.kind(), io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn mounts_of_an_image_are_one_file_system_and_leave_no_device() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (layers, image) = (layers(dir.path()), dir.path().join("image"));
    ensure(&layers, &image, "one").unwrap();
    let devices = || {
        let backed = fs::read_dir("/sys/block").unwrap().flatten();
        let backed =
            backed.filter_map(|entry| fs::read_to_string(entry.path().join("loop/backing_file")).ok());
        backed.filter(|file| Path::new(file.trim_end()) == image).count()
    };
    let mounted: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| mount(&image).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(devices(), 1);
    let superblocks: BTreeSet<u64> =
        mounted.iter().map(|one| fs::metadata(shown(one)).unwrap().dev()).collect();
    assert_eq!(superblocks.len(), 1);
    drop(mounted);
    crate::poll::until(
        std::time::Duration::from_secs(5),
        || if devices() == 0 { Ok(()) } else { Err(()) },
        |()| false,
    )
    .unwrap();
}

#[test]
fn the_same_content_gives_the_same_image_and_other_content_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (layers, image) = (layers(dir.path()), dir.path().join("image"));
    ensure(&layers, &image, "same").unwrap();
    assert!(is_image_of(&layers, &image, "same").unwrap());
    assert!(!is_image_of(&layers, &image, "another").unwrap());
    let file = File::options().write(true).open(layers.join("1/fs/block")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(is_image_of(&layers, &image, "same").unwrap(), "times do not matter");
    fs::write(layers.join("1/fs/block"), vec![3; 4096]).unwrap();
    assert!(!is_image_of(&layers, &image, "same").unwrap());
    fs::write(layers.join("1/fs/block"), vec![1; 4096]).unwrap();
    let mut longer = File::options().append(true).open(&image).unwrap();
    longer.write_all(&[0]).unwrap();
    assert!(!is_image_of(&layers, &image, "same").unwrap());
}

#[test]
fn an_image_that_was_cut_off_is_made_again_and_a_whole_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (layers, image) = (layers(dir.path()), dir.path().join("image"));
    fs::write(dir.path().join("image.unfinished"), "left by a killed run").unwrap();
    ensure(&layers, &image, "").unwrap();
    assert!(!dir.path().join("image.unfinished").exists());
    let inode = || fs::metadata(&image).unwrap().ino();
    let first = inode();
    ensure(&layers, &image, "").unwrap();
    assert_eq!(inode(), first);
    for damage in [0, 1024, 100_000] {
        File::options().write(true).open(&image).unwrap().set_len(damage).unwrap();
        ensure(&layers, &image, "").unwrap();
        assert!(is_image_of(&layers, &image, "").unwrap(), "cut off at {damage}");
    }
}
