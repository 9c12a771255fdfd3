//! Room on file systems and what directories take of it.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};

/// Bytes that are free for us on the file system that holds `path`, or will hold it once it is made.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = statvfs(nearest_existing(path)?)?;
    // `f_bavail`, not `f_bfree`: the rest is kept for root, and being root is no reason to fill a disk.
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes that the tree at `path` occupies on disk.
///
/// Counts blocks, not lengths (holes are free), each inode once (hard links are free), and follows no symbolic
/// link. What disappears while it looks counts nothing; so does a `path` that does not exist.
pub fn allocated_bytes(path: &Path) -> io::Result<u64> {
    let mut seen = HashSet::new();
    let mut total = 0;
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        let Some(metadata) = unless_gone(fs::symlink_metadata(&path))? else { continue };
        if !counts(&metadata, &mut seen) {
            continue;
        }
        // The unit of st_blocks is 512 bytes, whatever the file system's own block size (inode(7)).
        total += metadata.blocks() * 512;
        if metadata.is_dir() {
            let Some(entries) = unless_gone(fs::read_dir(&path))? else { continue };
            for entry in entries {
                todo.push(entry?.path());
            }
        }
    }
    Ok(total)
}

/// Whether we may write at `path`, or make it where it does not exist yet.
///
/// Asks the kernel about the nearest thing that exists, so a read-only mount says no even to root.
pub fn is_writable(path: &Path) -> bool {
    let Ok(existing) = nearest_existing(path) else { return false };
    if existing.is_dir() {
        access(existing, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    } else {
        // Below a file nothing can be made.
        existing == path && access(existing, Access::WRITE_OK).is_ok()
    }
}

/// The path itself if it exists, else the first of its parents that does.
pub fn nearest_existing(path: &Path) -> io::Result<&Path> {
    for candidate in path.ancestors() {
        // The last ancestor of a relative path is the empty one: the working directory.
        let candidate = if candidate.as_os_str().is_empty() { Path::new(".") } else { candidate };
        match fs::metadata(candidate) {
            Ok(_) => return Ok(candidate),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn counts(metadata: &Metadata, seen: &mut HashSet<(u64, u64)>) -> bool {
    // Only what has several names can be met twice; directories never are.
    metadata.is_dir() || metadata.nlink() == 1 || seen.insert((metadata.dev(), metadata.ino()))
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_told_for_what_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(&dir.path().join("not/made/yet")).unwrap() > 0);
        assert!(free_bytes(Path::new("not/made/yet/either")).unwrap() > 0);
    }

    #[test]
    fn hard_links_holes_and_symbolic_links_take_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let empty = allocated_bytes(&tree).unwrap();

        fs::write(tree.join("data"), vec![1; 256 * 1024]).unwrap();
        fs::File::open(tree.join("data")).unwrap().sync_all().unwrap(); // blocks are given out late
        let with_data = allocated_bytes(&tree).unwrap();
        assert!(with_data >= empty + 256 * 1024, "{empty} {with_data}");

        fs::hard_link(tree.join("data"), tree.join("again")).unwrap();
        fs::File::create(tree.join("hole")).unwrap().set_len(1 << 30).unwrap();
        std::os::unix::fs::symlink("/usr", tree.join("elsewhere")).unwrap();
        assert!(allocated_bytes(&tree).unwrap() < with_data + 64 * 1024);
    }

    #[test]
    fn what_is_not_there_takes_no_room() {
        assert_eq!(allocated_bytes(Path::new("/not/there")).unwrap(), 0);
    }

    #[test]
    fn writable_is_asked_of_the_nearest_thing_that_exists() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_writable(&dir.path().join("not/made/yet")));
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(is_writable(&file));
        assert!(!is_writable(&file.join("below")));
        // The kernel makes nothing here, not even for root.
        assert!(!is_writable(Path::new("/proc/sys/kernel/not/there")));
    }
}
