//! A directory in the making: the same description becomes a directory on disk or a layer of an image.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use tar::{EntryType, Header};

use crate::error::{At, Result};

/// Paths below the root of the directory, sorted, so that parents come before what is in them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tree(BTreeMap<PathBuf, Node>);

#[derive(Debug, Clone)]
enum Node {
    Dir {
        mode: u32,
    },
    /// A copy of (on disk: a hard link to) another file, whose mode it has.
    File {
        source: PathBuf,
    },
    Text {
        bytes: Vec<u8>,
    },
    Link {
        target: PathBuf,
    },
}

impl Tree {
    pub(crate) fn dir(&mut self, path: impl AsRef<Path>, mode: u32) {
        self.insert(path.as_ref(), Node::Dir { mode });
    }

    pub(crate) fn file(&mut self, path: impl AsRef<Path>, source: impl Into<PathBuf>) {
        self.insert(path.as_ref(), Node::File { source: source.into() });
    }

    pub(crate) fn text(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        self.insert(path.as_ref(), Node::Text { bytes: bytes.into() });
    }

    /// `target` is relative to the link's directory: nothing in a bundle may lead out of it.
    pub(crate) fn link(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        let target = target.into();
        debug_assert!(target.is_relative(), "{} -> {}", path.as_ref().display(), target.display());
        self.insert(path.as_ref(), Node::Link { target });
    }

    /// Everything below a directory on disk, at the same paths.
    pub(crate) fn overlay(&mut self, root: &Path) -> Result<()> {
        for item in walkdir::WalkDir::new(root).min_depth(1) {
            let item = item.map_err(io::Error::from).at("read", root)?;
            let path = item.path().strip_prefix(root).expect("a path below the root that is walked");
            if item.file_type().is_symlink() {
                self.link(path, fs::read_link(item.path()).at("read", item.path())?);
            } else if item.file_type().is_file() {
                self.file(path, item.path());
            }
        }
        Ok(())
    }

    pub(crate) fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.0.contains_key(&normal(path.as_ref()))
    }

    fn insert(&mut self, path: &Path, node: Node) {
        let path = normal(path);
        for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            self.0.entry(parent.to_owned()).or_insert(Node::Dir { mode: 0o755 });
        }
        self.0.insert(path, node);
    }

    /// Makes the directory. Files become hard links where the file system allows it, so that no byte exists twice.
    pub(crate) fn write_to(&self, root: &Path) -> Result<()> {
        fs::create_dir_all(root).at("make", root)?;
        fs::set_permissions(root, PermissionsExt::from_mode(0o755)).at("make", root)?;
        for (path, node) in &self.0 {
            let path = root.join(path);
            match node {
                Node::Dir { mode } => {
                    fs::create_dir(&path).at("make", &path)?;
                    fs::set_permissions(&path, PermissionsExt::from_mode(*mode)).at("make", &path)?;
                }
                Node::File { source } => link_or_copy(source, &path).at("write", &path)?,
                Node::Text { bytes } => {
                    fs::write(&path, bytes).at("write", &path)?;
                    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).at("write", &path)?;
                }
                Node::Link { target } => symlink(target, &path).at("write", &path)?,
            }
        }
        Ok(())
    }

    /// Writes the directory as the tar of an image layer: the same bytes for the same content.
    pub(crate) fn write_layer(&self, out: impl Write) -> Result<()> {
        let mut tar = tar::Builder::new(out);
        for (path, node) in &self.0 {
            let mut header = Header::new_gnu();
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            match node {
                Node::Dir { mode } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_size(0);
                    tar.append_data(&mut header, path, io::empty())
                }
                Node::File { source } => {
                    let file = File::open(source).at("read", source)?;
                    let metadata = file.metadata().at("read", source)?;
                    header.set_mode(metadata.permissions().mode() & 0o777);
                    header.set_size(metadata.len());
                    tar.append_data(&mut header, path, file)
                }
                Node::Text { bytes } => {
                    header.set_mode(0o644);
                    header.set_size(bytes.len() as u64);
                    tar.append_data(&mut header, path, bytes.as_slice())
                }
                Node::Link { target } => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    tar.append_link(&mut header, path, target)
                }
            }
            .at("pack", path)?;
        }
        tar.into_inner().and_then(|mut out| out.flush()).at("pack", Path::new("the layer"))
    }
}

/// A hard link, or a copy where the two are on different file systems.
pub(crate) fn link_or_copy(source: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(source, target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => fs::copy(source, target).map(drop),
        other => other,
    }
}

/// The path without a leading `/` and without `.`; `..` never appears in what we write.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dir: &Path) -> Tree {
        let source = dir.join("source");
        fs::write(&source, "program").unwrap();
        fs::set_permissions(&source, PermissionsExt::from_mode(0o755)).unwrap();
        let mut tree = Tree::default();
        tree.file("/usr/bin/tool", &source);
        tree.link("/bin", "usr/bin");
        tree.dir("/tmp", 0o1777);
        tree.text("etc/name", "x");
        tree
    }

    #[test]
    fn files_are_hard_links_and_parents_are_made() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let tree = sample(dir.path());
        tree.write_to(&dir.path().join("out")).unwrap();
        let made = fs::metadata(dir.path().join("out/bin/tool")).unwrap();
        assert_eq!(made.ino(), fs::metadata(dir.path().join("source")).unwrap().ino());
        assert_eq!(fs::metadata(dir.path().join("out/tmp")).unwrap().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn a_layer_is_the_same_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let layer = || {
            let mut bytes = Vec::new();
            sample(dir.path()).write_layer(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(layer(), layer());
        let names: Vec<String> = tar::Archive::new(layer().as_slice())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["bin", "etc", "etc/name", "tmp", "usr", "usr/bin", "usr/bin/tool"]);
    }
}
