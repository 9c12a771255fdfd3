//! Files that are being written, beside the one they become.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

/// A file that is being written: hidden, so that a kubelet does not take it for a manifest, and each writer has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfinished<'a> {
    name: &'a OsStr,
    writer: u32,
    number: u32,
}

const UNFINISHED: &str = ".unfinished";

impl<'a> Unfinished<'a> {
    /// A unique one, from our process's number and a counter.
    pub(super) fn next(name: &'a OsStr) -> Self {
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        Self { name, writer: std::process::id(), number: WRITTEN.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn file_name(&self) -> OsString {
        let mut file_name = OsString::from(".");
        file_name.push(self.name);
        file_name.push(format!(".{}-{}{UNFINISHED}", self.writer, self.number));
        file_name
    }

    /// The process that writes a file of this name for `name`, if it is such a file.
    fn writer_of(file_name: &[u8], name: &OsStr) -> Option<u32> {
        let rest = file_name.strip_prefix(b".")?.strip_prefix(name.as_bytes())?.strip_prefix(b".")?;
        let rest = str::from_utf8(rest.strip_suffix(UNFINISHED.as_bytes())?).ok()?;
        let (writer, number) = rest.split_once('-')?;
        number.parse::<u32>().ok()?;
        writer.parse().ok()
    }
}

/// Removes what killed writers of a file have left.
pub(super) fn remove_abandoned(folder: &OwnedFd, name: &OsStr) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The next one may have more luck.
    let Ok(entries) = openat(folder, ".", flags, Mode::empty()).and_then(rustix::fs::Dir::new) else {
        return;
    };
    for entry in entries.flatten() {
        let writer = Unfinished::writer_of(entry.file_name().to_bytes(), name);
        if writer.is_some_and(|writer| !Path::new("/proc").join(writer.to_string()).exists()) {
            let _ = unlinkat(folder, entry.file_name(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;

    #[test]
    fn writers_do_not_share_what_is_unfinished_and_the_dead_leave_nothing() {
        let (dir, name) = (tempfile::tempdir().unwrap(), OsStr::new("etcd.yaml"));
        let [first, second] = [Unfinished::next(name), Unfinished::next(name)].map(|it| it.file_name());
        assert_ne!(first, second);
        assert_eq!(Unfinished::writer_of(first.as_bytes(), name), Some(std::process::id()));
        for other in ["etcd.yaml", ".etcd.yaml.unfinished", ".etcd.yaml.7-x.unfinished", ".x.7-1.unfinished"]
        {
            assert_eq!(Unfinished::writer_of(other.as_bytes(), name), None, "{other}");
        }
        // No process has this number.
        let dead = Unfinished { name, writer: u32::MAX, number: 0 }.file_name();
        for left in [&first, &dead] {
            std::fs::write(dir.path().join(left), "half").unwrap();
        }
        let folder = openat(CWD, dir.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        remove_abandoned(&folder, name);
        assert!(dir.path().join(first).exists(), "its writer lives");
        assert!(!dir.path().join(dead).exists());
    }
}
