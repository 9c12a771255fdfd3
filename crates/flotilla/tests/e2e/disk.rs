//! A disk that is too small, or becomes so.

use std::fs;
use std::path::Path;

use flotilla_linux::host::Command;

use crate::lab;

/// A file system of that size, for as long as it lives.
struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    fn new(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .run()
            .unwrap();
        Self { directory }
    }

    fn home(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A panic here would hide the test's own.
        let _ = Command::new("umount").arg("--lazy").arg(self.directory.path()).run();
    }
}

pub(crate) fn too_little_space_is_told_before_anything_is_made() {
    let disk = SmallDisk::new("100m");
    let refused = lab::run(disk.home(), &["bundle", "build"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(26), "{text}");
    assert!(text.contains("11 GB"), "{text}");
    assert_eq!(fs::read_dir(disk.home()).unwrap().count(), 0);
}

pub(crate) fn a_disk_that_fills_up_stops_the_build_and_freed_it_goes_on() {
    lab::bundle();
    let disk = SmallDisk::new("4g");
    let parts = disk.home().join("cache/parts");
    fs::create_dir_all(&parts).unwrap();
    // Not those of other versions, however many this machine has.
    Command::new("cp").arg("-a").args(lab::parts()).arg(&parts).run().unwrap();
    let mut building = lab::build(disk.home());
    assert!(building.wait_for_step("userland"));
    let ballast = disk.home().join("ballast");
    building.paused(|| {
        let all_but_a_little = flotilla_linux::disk::free_bytes(disk.home()).unwrap() - 100_000_000;
        Command::new("fallocate").arg("-l").arg(all_but_a_little.to_string()).arg(&ballast).run().unwrap();
    });
    let (status, last) = building.finish();
    assert_eq!(status, 26, "{last}");
    assert!(last["data"]["advice"].as_str().unwrap().contains("free some space"), "{last}");
    fs::remove_file(&ballast).unwrap();
    // The digest does not depend on the umask of whoever builds.
    let (status, last) = lab::build_with_umask(disk.home(), "077").finish();
    assert_eq!(status, 0, "{last}");
    assert_eq!(last["data"]["digest"], lab::digest());
}
