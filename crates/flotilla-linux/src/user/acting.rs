//! Files made on behalf of a machine that has a user namespace of its own.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

/// Owner and group that are root in the user namespace of a process; none if they are root here, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acting {
    user: u32,
    group: u32,
}

impl Acting {
    /// By the process's directory in `/proc`.
    pub(crate) fn root_of(process: &Path) -> io::Result<Option<Self>> {
        let root = |file: &str| {
            let map = fs::read_to_string(process.join(file))?;
            root_in(&map).ok_or_else(|| io::Error::other("its user namespace has no root"))
        };
        let acting = Self { user: root("uid_map")?, group: root("gid_map")? };
        Ok(Some(acting).filter(|acting| *acting != Self { user: 0, group: 0 }))
    }

    /// Makes files as that root until the result is dropped: no file system of a user namespace takes files of somebody who is
    /// unknown there. This thread only, and with the rights that it has: those on the files of all others as well.
    pub(crate) fn begin(self) -> io::Result<Acted> {
        let acted = Acted { _this_thread: PhantomData };
        set_ids(self.user, self.group)?;
        // The kernel has taken those that are about files away, with the user.
        let now = capabilities(None)?;
        set_capabilities(None, CapabilitySets { effective: now.permitted, ..now })?;
        Ok(acted)
    }
}

/// Gives a thread back its own user, of the host's root.
#[derive(Debug)]
pub(crate) struct Acted {
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Acted {
    fn drop(&mut self) {
        // Only somebody who is root acts as another, and to become root again cannot fail.
        drop(set_ids(0, 0));
    }
}

/// Sets whom files that this thread makes belong to.
#[expect(unsafe_code, reason = "system calls that no crate here has")]
fn set_ids(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: they take numbers, and concern this thread only. Both return what was before, so what came of it is asked for by
    // a second call with a number that cannot be.
    let set = unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX))
    };
    let wanted = (user.cast_signed(), group.cast_signed());
    if set == wanted { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Who is root by a map of ids, `inside outside count` in each line.
fn root_in(map: &str) -> Option<u32> {
    map.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["0", outside, _] => outside.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn root_is_found_in_a_map_of_ids() {
        assert_eq!(root_in("         0 1879048192      65536\n"), Some(1_879_048_192));
        assert_eq!(root_in("1 5 10\n0 7 1\n"), Some(7));
        assert_eq!(root_in("1 5 10\n"), None);
        assert_eq!(root_in(""), None);
        assert_eq!(Acting::root_of(Path::new("/proc/self")).unwrap(), None);
    }

    #[test]
    fn files_are_made_for_another_with_root_s_own_rights_and_only_for_a_while() {
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root acts as another");
        }
        let dir = tempfile::tempdir().unwrap();
        let owner = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            let file = fs::metadata(path).unwrap();
            (file.uid(), file.gid())
        };
        let acted = Acting { user: 1_879_048_192, group: 1_879_048_193 }.begin().unwrap();
        assert_eq!(owner("theirs"), (1_879_048_192, 1_879_048_193), "in a directory that is root's alone");
        drop(acted);
        assert_eq!(owner("ours"), (0, 0));
    }
}
