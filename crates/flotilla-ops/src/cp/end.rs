//! The two ends of a copy: the host or a node, looked at and written to in the same way.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use flotilla_core::Cluster;
use flotilla_engine::EngineError;

use super::Place;
use super::host;
use super::node_path::NodePath;
use crate::{Context, OpError, lookup};

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
    Node(NodePath),
}

impl End {
    /// A node must run for it.
    pub(super) async fn open(cx: &Context<'_>, cluster: &Cluster, place: &Place) -> Result<Self, OpError> {
        match place {
            Place::Host(path) => Ok(Self::Host(PathBuf::from(path))),
            Place::Node(node, path) => {
                let name = lookup::node(cluster, node.as_deref())?.spec.name;
                let machine = cx.engine().machine(cluster.name(), &name).await?;
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

    /// What is there, behind links; none if there is nothing.
    pub(super) async fn find(&self) -> Result<Option<Kind>, EngineError> {
        match self {
            Self::Host(path) => host::look(path),
            Self::Node(guest) => guest.look().await,
        }
    }

    /// The directory itself and all in it, each directory before what is in it.
    pub(super) async fn list(&self) -> Result<Vec<Entry>, EngineError> {
        match self {
            Self::Host(path) => host::list(path),
            Self::Node(guest) => guest.list().await,
        }
    }

    pub(super) async fn make_folders(&self, entries: &[Entry]) -> Result<(), EngineError> {
        match self {
            Self::Host(path) => host::make_folders(path, entries),
            Self::Node(guest) => guest.make_folders(entries).await,
        }
    }

    pub(super) async fn make_links(&self, entries: &[Entry]) -> Result<(), EngineError> {
        match self {
            Self::Host(path) => host::make_links(path, entries),
            Self::Node(guest) => guest.make_links(entries).await,
        }
    }

    /// Writes a file, whole or not at all.
    pub(super) async fn fill(&self, file: File, mode: u32) -> Result<(), EngineError> {
        match self {
            Self::Host(path) => host::copy(file, path, mode).await,
            Self::Node(guest) => guest.write_from(file, mode).await,
        }
    }

    /// The end with that name in it, if it is a directory or is written like one.
    pub(super) async fn inside_if_folder(self, name: Option<&str>) -> Result<Self, EngineError> {
        let is_folder =
            self.to_string().ends_with('/') || matches!(self.find().await?, Some(Kind::Folder { .. }));
        Ok(match name.filter(|_| is_folder) {
            Some(name) => self.join(name),
            None => self,
        })
    }

    /// The last part of the path; none if it is `/` or the like.
    pub(super) fn name(&self) -> Option<String> {
        let path = match self {
            Self::Host(path) => path.clone(),
            Self::Node(guest) => PathBuf::from(&guest.path),
        };
        path.file_name().and_then(|name| name.to_str()).map(str::to_owned)
    }

    pub(super) fn join(&self, below: &str) -> Self {
        match self {
            Self::Host(path) if below.is_empty() => Self::Host(path.clone()),
            Self::Host(path) => Self::Host(path.join(below)),
            Self::Node(guest) => Self::Node(guest.join(below)),
        }
    }

    /// Why something cannot be done with it.
    pub(super) fn failed(&self, action: &'static str, why: io::Error) -> EngineError {
        match self {
            Self::Host(path) => host::failed(action, path, why),
            Self::Node(guest) => guest.failed(action, why),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(path) => write!(f, "{}", path.display()),
            Self::Node(guest) => write!(f, "{}:{}", guest.machine.name(), guest.path),
        }
    }
}
