//! `flotilla cp`: copies files and directories between the host and nodes, and from node to node.

mod end;
mod host;
mod node_path;
mod tree;
mod whole;

use std::fs::File;
use std::io::{self, Read, Seek};

use flotilla_core::{Cluster, Writer};
use flotilla_engine::EngineError;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

use end::{End, Entry, Kind};

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    Host(String),
    /// None: in the primary node.
    Node(Option<String>, String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    pub source: Place,
    pub target: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    pub source: String,
    pub target: String,
    pub files: u64,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Copied, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let engine = cx.engine(cluster.name());
    let target = End::open(&engine, &cluster, &request.target).await?;
    let source = End::open(&engine, &cluster, &request.source).await?;
    let kind = source.look().await?;
    let target = target.inside_if_folder(source.name().as_deref()).await?;
    let copy = Copy { cx, cluster: &cluster };
    let files = match kind {
        Kind::File { mode } => copy.file(&source, &target, mode).await.map(|()| 1)?,
        Kind::Folder { .. } => copy.folder(&source, &target).await?,
        // Only the path itself can be one; it was followed.
        Kind::Link { .. } | Kind::Other => {
            return Err(source.failed("copy", io::Error::other("it is a device, pipe or socket")).into());
        }
    };
    Ok(Copied { source: source.to_string(), target: target.to_string(), files })
}

/// Writes a file of a node to a stream: its bytes and nothing else.
pub async fn read_out(
    cx: &Context<'_>,
    cluster: &ClusterName,
    source: &Place,
    to: Writer,
) -> Result<(), OpError> {
    let cluster = lookup::cluster(cx, cluster).await?;
    let source = End::open(&cx.engine(cluster.name()), &cluster, source).await?;
    let End::Node(node) = &source else {
        return Err(source.failed("copy", io::Error::other("it is not in a node")).into());
    };
    if !matches!(source.look().await?, Kind::File { .. }) {
        return Err(source.failed("copy", io::Error::other("only a file can go to standard output")).into());
    }
    Ok(node.read_into(to).await?)
}

/// A stream that was read to its end, and where it goes to: one that breaks off leaves nothing half done.
pub struct Spooled {
    target: End,
    file: File,
}

impl std::fmt::Debug for Spooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spooled({})", self.target)
    }
}

/// Reads a stream to its end, for a file that it may be written to.
pub async fn spool(
    cx: &Context<'_>,
    cluster: &ClusterName,
    from: &mut dyn Read,
    target: &Place,
) -> Result<Spooled, OpError> {
    let cluster = lookup::cluster(cx, cluster).await?;
    let target = End::open(&cx.engine(cluster.name()), &cluster, target).await?;
    if let Some(Kind::Folder { .. }) = target.find().await? {
        return Err(target.failed("write", io::Error::other("it is a directory: name a file in it")).into());
    }
    let mut file = unnamed_file(cx, &cluster)?;
    io::copy(from, &mut file)
        .and_then(|_| file.rewind())
        .map_err(|error| host::failed("read", "standard input".as_ref(), error))?;
    Ok(Spooled { target, file })
}

impl Spooled {
    pub async fn write(self) -> Result<Copied, OpError> {
        const MODE: u32 = 0o644;
        self.target.fill(self.file, MODE).await?;
        Ok(Copied { source: "-".to_owned(), target: self.target.to_string(), files: 1 })
    }
}

struct Copy<'a> {
    cx: &'a Context<'a>,
    cluster: &'a Cluster,
}

impl Copy<'_> {
    /// Directories first, links last. What is in the target already stays, unless it has the same name.
    async fn folder(&self, source: &End, target: &End) -> Result<u64, OpError> {
        if !matches!(target.find().await?, None | Some(Kind::Folder { .. })) {
            return Err(target.failed("make", io::Error::other("a file of that name exists")).into());
        }
        let entries = source.list().await?;
        let is_other = |entry: &&Entry| matches!(entry.kind, Kind::Other);
        for other in entries.iter().filter(is_other) {
            self.cx.warn(format!("skipped {}: it is a device, pipe or socket", source.join(&other.path)));
        }
        let (source, target) = (source.join("").held()?, target.join("").held()?);
        target.make_folders(&entries).await?;
        let mut files = 0;
        for entry in &entries {
            if let Kind::File { mode } = entry.kind {
                self.file(&source.join(&entry.path), &target.join(&entry.path), mode).await?;
                files += 1;
            }
        }
        target.make_links(&entries).await?;
        Ok(files)
    }

    async fn file(&self, source: &End, target: &End, mode: u32) -> Result<(), OpError> {
        if self.cx.cancel.is_cancelled() {
            return Err(EngineError::Interrupted.into());
        }
        let node = match source {
            End::Host(path) => {
                let file = File::open(path).map_err(|error| host::failed("read", path, error))?;
                return Ok(target.fill(file, mode).await?);
            }
            End::Below(tree, path) => return Ok(target.fill(tree.read(path)?, mode).await?),
            End::Node(node) => node,
        };
        match target {
            End::Host(path) => {
                host::filled(path, mode, async |file| node.read_into(Box::new(file)).await).await?;
            }
            End::Below(tree, path) => {
                tree.filled(path, mode, async |file| node.read_into(Box::new(file)).await).await?;
            }
            // Through the host, so that a copy that breaks off leaves nothing half done.
            End::Node(_) => {
                let mut between = unnamed_file(self.cx, self.cluster)?;
                let directory = self.cx.store.folder(self.cluster.name());
                let written =
                    between.try_clone().map_err(|error| host::failed("write", &directory, error))?;
                node.read_into(Box::new(written)).await?;
                between.rewind().map_err(|error| host::failed("read", &directory, error))?;
                target.fill(between, mode).await?;
            }
        }
        Ok(())
    }
}

/// A file on the disk that nobody sees and that is gone when it is closed.
fn unnamed_file(cx: &Context<'_>, cluster: &Cluster) -> Result<File, EngineError> {
    let directory = cx.store.folder(cluster.name());
    tempfile::tempfile_in(&directory).map_err(|error| host::failed("write", &directory, error))
}
