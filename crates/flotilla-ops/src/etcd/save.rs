//! `flotilla etcd snapshot save`: writes all that the API holds to one file.

use std::io;
use std::path::{Path, PathBuf};

use flotilla_core::Snapshot;
use flotilla_core::event::{Outcome, Step};
use flotilla_engine::EngineError;
use flotilla_files::{AtomicFile, directory_of};
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use super::EtcdError;
use super::status::Members;
use crate::{Context, OpError, lookup};

/// How the name of a snapshot begins that is not whole yet.
const UNFINISHED: &str = ".flotilla-snapshot-";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
    pub file: PathBuf,
    /// Overwrites the file if it exists.
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub cluster: ClusterName,
    pub file: PathBuf,
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Saved, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    may_be_written(request)?;
    // From the member that knows most of what is agreed on, if one of them should lag behind.
    let vias = super::members_that_are_on(cx, &cluster).await?;
    let members = Members::ask(cx, &cluster, &vias).await?;
    let via = vias.iter().rev().max_by_key(|via| members.agreed(via)).expect("one of them answered");
    let title = format!("saving a snapshot from node {}", via.node.spec.name);
    let step = Step::start(cx.reporter, "snapshot", title, None);
    // Readable for its owner alone. Its name is its own: another command may write to the same place.
    let unfinished = AtomicFile::within(directory_of(&request.file), UNFINISHED, &request.file);
    let unfinished = unfinished.map_err(cannot_write(&request.file))?;
    let own = unfinished.file().try_clone().map_err(cannot_write(&request.file))?;
    let saved = cx.bootstrapper.save_snapshot(via.machine.as_ref(), Box::new(own)).await;
    let snapshot = saved.map_err(EngineError::from)?;
    may_be_written(request)?;
    unfinished.finish().map_err(cannot_write(&request.file))?;
    step.done(Outcome::Done);
    Ok(Saved { cluster: request.cluster.clone(), file: request.file.clone(), snapshot })
}

fn may_be_written(request: &Request) -> Result<(), EtcdError> {
    if request.file.symlink_metadata().is_ok() && !request.force {
        return Err(EtcdError::FileExists { file: request.file.clone() });
    }
    Ok(())
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> EngineError {
    move |source| EngineError::Io { action: "write", path: path.to_owned(), source }
}
