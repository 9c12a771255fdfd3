//! Writes what comes out of an archive, without ever writing through a link that came out of it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::error::{At, Result};

/// A directory being filled. Links are made by [`Unpack::finish`], after everything else.
#[derive(Debug)]
pub(crate) struct Unpack<'a> {
    root: &'a Path,
    links: Vec<(PathBuf, PathBuf)>,
    modes: Vec<(PathBuf, u32)>,
}

impl<'a> Unpack<'a> {
    pub(crate) fn into(root: &'a Path) -> Self {
        Self { root, links: Vec::new(), modes: Vec::new() }
    }

    pub(crate) fn dir(&mut self, path: &Path, mode: u32) -> Result<()> {
        let full = self.root.join(path);
        fs::create_dir_all(&full).at("make", &full)?;
        self.modes.push((full, mode));
        Ok(())
    }

    /// Copies all of `content`, at most `limit` bytes, into a new file. Gives the number of bytes.
    pub(crate) fn file(&mut self, path: &Path, mode: u32, limit: u64, content: impl Read) -> Result<u64> {
        let full = self.parent_made(path)?;
        let mut file = create(&full, mode).at("write", &full)?;
        let bytes = io::copy(&mut content.take(limit), &mut file).at("write", &full)?;
        file.set_permissions(PermissionsExt::from_mode(mode)).at("write", &full)?;
        Ok(bytes)
    }

    /// A second name for a file that was unpacked before.
    pub(crate) fn hard_link(&mut self, path: &Path, target: &Path) -> Result<()> {
        let full = self.parent_made(path)?;
        fs::hard_link(self.root.join(target), &full).at("link", &full)
    }

    pub(crate) fn link(&mut self, path: PathBuf, target: PathBuf) {
        self.links.push((path, target));
    }

    pub(crate) fn finish(self) -> Result<()> {
        for (path, target) in &self.links {
            let full = self.parent_made(path)?;
            symlink(target, &full).at("link", &full)?;
        }
        for (path, mode) in &self.modes {
            fs::set_permissions(path, PermissionsExt::from_mode(*mode)).at("set the mode of", path)?;
        }
        Ok(())
    }

    fn parent_made(&self, path: &Path) -> Result<PathBuf> {
        let full = self.root.join(path);
        let parent = full.parent().unwrap_or(self.root);
        fs::create_dir_all(parent).at("make", parent)?;
        Ok(full)
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(mode).open(path)
}

/// The path as it may be used below a root: relative, no `..`; `None` for anything else.
pub(crate) fn inside(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!clean.as_os_str().is_empty()).then_some(clean)
}

/// Whether a link at `path` with this target stays below the root. The directories it is in must not be links.
///
/// It may go up only at its beginning: after a name, which may be that of another link, `..` can lead anywhere.
pub(crate) fn link_stays_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    let mut named = false;
    for part in target.components() {
        match part {
            Component::Normal(_) => named = true,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 && !named => depth -= 1,
            _ => return false,
        }
    }
    !target.as_os_str().is_empty()
}

/// Where a relative link leads, read as text.
pub(crate) fn followed(path: &Path, target: &Path) -> PathBuf {
    let mut leads_to = path.parent().unwrap_or(Path::new("")).to_owned();
    for part in target.components() {
        match part {
            Component::ParentDir => drop(leads_to.pop()),
            Component::Normal(name) => leads_to.push(name),
            _ => {}
        }
    }
    leads_to
}

/// An absolute link target of a root file system, as seen from the link's directory.
pub(crate) fn relative_target(path: &Path, target: &Path) -> PathBuf {
    let Ok(target) = target.strip_prefix("/") else { return target.to_owned() };
    let up = path.components().count().saturating_sub(1);
    std::iter::repeat_n(Path::new(".."), up).collect::<PathBuf>().join(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_paths_below_the_root_are_taken() {
        assert_eq!(inside(Path::new("./usr/bin/x")), Some("usr/bin/x".into()));
        for bad in ["/etc/passwd", "../x", "a/../../x", "", "."] {
            assert_eq!(inside(Path::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn links_may_go_up_but_not_out() {
        let stays = |path: &str, target: &str| link_stays_inside(Path::new(path), Path::new(target));
        assert!(stays("usr/lib64/ld.so", "../lib/ld.so"));
        assert!(stays("a/b/c", "../../x"));
        assert!(!stays("a/b/c", "../../../x"));
        assert!(!stays("a", "/etc/passwd"));
        assert!(!stays("a", "b/../../x"));
        assert!(!stays("a", ""));
    }

    #[test]
    fn a_link_may_not_go_up_behind_a_name_which_may_be_a_link() {
        let stays = |path: &str, target: &str| link_stays_inside(Path::new(path), Path::new(target));
        assert!(stays("a/b/up", "../.."));
        // Through that link, the next one would be the parent of the root, though its text is `a/b`.
        assert!(!stays("out", "a/b/up/.."));
    }

    #[test]
    fn absolute_targets_become_relative() {
        let made = relative_target(Path::new("usr/lib64/ld.so"), Path::new("/usr/lib/x/ld.so"));
        assert_eq!(made, Path::new("../../usr/lib/x/ld.so"));
        assert_eq!(followed(Path::new("usr/lib64/ld.so"), &made), Path::new("usr/lib/x/ld.so"));
    }

    proptest! {
        #[test]
        fn a_made_relative_target_stays_inside(path in "([a-z]{1,3}/){0,4}[a-z]{1,3}", target in "(/[a-z]{1,3}){1,5}") {
            let (path, target) = (Path::new(&path), Path::new(&target));
            prop_assert!(link_stays_inside(path, &relative_target(path, target)));
        }

        #[test]
        fn an_accepted_path_never_leaves_the_root(path in "[a-z./]{0,20}") {
            if let Some(clean) = inside(Path::new(&path)) {
                prop_assert!(clean.is_relative());
                prop_assert!(clean.components().all(|part| matches!(part, Component::Normal(_))));
            }
        }
    }
}
