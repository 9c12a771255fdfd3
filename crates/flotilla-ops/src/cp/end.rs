//! The two ends of a copy: the host or a node, looked at and written to in the same way.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;

use super::Place;
use super::host;
use super::node_path::NodePath;
use super::tree::{self, Tree};
use crate::{OpError, lookup};

/// Linux's number for "No such file or directory", whose text people know.
const NO_ENTRY: i32 = 2;
/// Whose home paths in nodes begin at, as `ssh` does.
const HOME: &str = "/root";

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    File {
        mode: u32,
    },
    Folder {
        mode: u32,
    },
    Link {
        to: String,
    },
    /// A device, pipe or socket.
    Other,
}

/// Something in a directory, by its path from there: the directory itself has an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: Kind,
}

pub(super) enum End {
    Host(PathBuf),
    /// A path below a directory of the host that is copied to.
    Below(Arc<Tree>, String),
    Node(NodePath),
}

impl End {
    /// A node must run for it.
    pub(super) async fn open(engine: &Engine<'_>, cluster: &Cluster, place: &Place) -> Result<Self, OpError> {
        match place {
            Place::Host(path) => Ok(Self::Host(PathBuf::from(path))),
            Place::Node(node, path) => {
                let name = lookup::node(cluster, node.as_deref())?.spec.name;
                let machine = engine.machine(cluster, &name).await?;
                let path = if path.starts_with('/') { path.clone() } else { format!("{HOME}/{path}") };
                Ok(Self::Node(NodePath { machine, path }))
            }
        }
    }

    /// What is there, behind links.
    pub(super) async fn look(&self) -> Result<Kind, EngineError> {
        let kind = self.find().await?;
        kind.ok_or_else(|| self.failed("read", io::Error::from_raw_os_error(NO_ENTRY)))
    }

    /// What is there, behind links except below a directory that is held; none if there is nothing.
    pub(super) async fn find(&self) -> Result<Option<Kind>, EngineError> {
        match self {
            Self::Host(path) => host::look(path),
            Self::Below(tree, path) => tree.find(path),
            Self::Node(guest) => guest.look().await,
        }
    }

    /// The directory itself and all in it, each directory before what is in it.
    pub(super) async fn list(&self) -> Result<Vec<Entry>, EngineError> {
        match self {
            Self::Host(_) | Self::Below(..) => host::list(&self.path()),
            Self::Node(guest) => guest.list().await,
        }
    }

    /// The end as one that a tree is copied to, or from: a directory of the host is held open.
    pub(super) fn held(self) -> Result<Self, EngineError> {
        match self {
            Self::Host(path) => Ok(Self::Below(Arc::new(Tree::open(&path)?), String::new())),
            other => Ok(other),
        }
    }

    pub(super) async fn make_folders(&self, entries: &[Entry]) -> Result<(), EngineError> {
        match self {
            Self::Host(path) => Tree::open(path)?.make_folders("", entries),
            Self::Below(tree, path) => tree.make_folders(path, entries),
            Self::Node(guest) => guest.make_folders(entries).await,
        }
    }

    pub(super) async fn make_links(&self, entries: &[Entry]) -> Result<(), EngineError> {
        match self {
            Self::Host(path) => Tree::open(path)?.make_links("", entries),
            Self::Below(tree, path) => tree.make_links(path, entries),
            Self::Node(guest) => guest.make_links(entries).await,
        }
    }

    /// Writes a file, whole or not at all.
    pub(super) async fn fill(&self, file: File, mode: u32) -> Result<(), EngineError> {
        match self {
            Self::Host(path) => host::copy(file, path, mode).await,
            Self::Below(tree, path) => {
                let mut source = file;
                tree.filled(path, mode, async |mut file| {
                    io::copy(&mut source, &mut file).map(drop).map_err(|error| self.failed("write", error))
                })
                .await
            }
            Self::Node(guest) => guest.write_from(file, mode).await,
        }
    }

    /// The end with that name in it, if it is a directory or is written like one. The name comes from the other end, and a link
    /// of that name may have come with an earlier copy: on the host only the directory is what the person typed.
    pub(super) async fn inside_if_folder(self, name: Option<&str>) -> Result<Self, EngineError> {
        let is_folder =
            self.to_string().ends_with('/') || matches!(self.find().await?, Some(Kind::Folder { .. }));
        Ok(match name.filter(|_| is_folder) {
            Some(name) => self.held()?.join(name),
            None => self,
        })
    }

    /// The last part of the path; none if it is `/` or the like.
    pub(super) fn name(&self) -> Option<String> {
        self.path().file_name().and_then(|name| name.to_str()).map(str::to_owned)
    }

    /// The path on the host or in the node.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Host(path) => path.clone(),
            Self::Below(tree, path) if path.is_empty() => tree.path.clone(),
            Self::Below(tree, path) => tree.path.join(path),
            Self::Node(guest) => PathBuf::from(&guest.path),
        }
    }

    pub(super) fn join(&self, below: &str) -> Self {
        match self {
            Self::Host(path) if below.is_empty() => Self::Host(path.clone()),
            Self::Host(path) => Self::Host(path.join(below)),
            Self::Below(tree, path) => Self::Below(Arc::clone(tree), tree::join(path, below)),
            Self::Node(guest) => Self::Node(guest.join(below)),
        }
    }

    /// Why something cannot be done with it.
    pub(super) fn failed(&self, action: &'static str, why: io::Error) -> EngineError {
        match self {
            Self::Host(_) | Self::Below(..) => host::failed(action, &self.path(), why),
            Self::Node(guest) => guest.failed(action, why),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(_) | Self::Below(..) => write!(f, "{}", self.path().display()),
            Self::Node(guest) => write!(f, "{}:{}", guest.machine.name(), guest.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    /// A directory of the person's in which an earlier copy left a link that leads to `outside`.
    fn copied_before(outside: &Path) -> tempfile::TempDir {
        let typed = tempfile::tempdir().unwrap();
        symlink(outside, typed.path().join("sub")).unwrap();
        typed
    }

    async fn sub_in(typed: &Path) -> End {
        End::Host(typed.to_owned()).inside_if_folder(Some("sub")).await.unwrap()
    }

    #[tokio::test]
    async fn a_directory_is_not_copied_through_a_link_of_its_name() {
        let outside = tempfile::tempdir().unwrap();
        let typed = copied_before(outside.path());
        let target = sub_in(typed.path()).await;
        assert_eq!(target.find().await.unwrap(), Some(Kind::Other));
        let entries = [
            Entry { path: String::new(), kind: Kind::Folder { mode: 0o755 } },
            Entry { path: "below".to_owned(), kind: Kind::Folder { mode: 0o755 } },
        ];
        let held = target.join("").held().unwrap();
        assert!(held.make_folders(&entries).await.is_err());
        let link = Entry { path: "evil".to_owned(), kind: Kind::Link { to: "/".to_owned() } };
        assert!(held.make_links(&[link]).await.is_err());
        assert!(held.join("evil").fill(tempfile::tempfile().unwrap(), 0o644).await.is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_file_replaces_a_link_of_its_name_and_writes_to_no_device_behind_it() {
        let typed = copied_before(Path::new("/dev/null"));
        let target = sub_in(typed.path()).await;
        target.fill(tempfile::tempfile().unwrap(), 0o640).await.unwrap();
        let written = fs::symlink_metadata(typed.path().join("sub")).unwrap();
        assert!(written.is_file());
        assert_eq!(written.permissions().mode() & 0o7777, 0o640);
    }

    #[tokio::test]
    async fn a_copied_directory_has_the_mode_that_it_had() {
        let typed = tempfile::tempdir().unwrap();
        let target = sub_in(typed.path()).await;
        assert_eq!(target.find().await.unwrap(), None);
        let entries = [
            Entry { path: String::new(), kind: Kind::Folder { mode: 0o700 } },
            Entry { path: "below".to_owned(), kind: Kind::Folder { mode: 0o750 } },
        ];
        target.join("").held().unwrap().make_folders(&entries).await.unwrap();
        let mode = |path: &str| fs::metadata(typed.path().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("sub"), mode("sub/below")), (0o700, 0o750));
        assert!(matches!(target.find().await.unwrap(), Some(Kind::Folder { .. })));
    }
}
