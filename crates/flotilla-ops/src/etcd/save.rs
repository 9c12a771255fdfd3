//! `flotilla etcd snapshot save`: writes all that the API holds to one file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flotilla_core::Snapshot;
use flotilla_core::event::{Outcome, Step};
use flotilla_engine::EngineError;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use super::EtcdError;
use super::status::Members;
use crate::{Context, OpError, lookup};

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
    let (file, unfinished) = create(&request.file)?;
    let own = file.try_clone().map_err(cannot_write(&request.file));
    let saved = match own {
        Ok(own) => cx.bootstrapper.save_snapshot(via.machine.as_ref(), own).await.map_err(EngineError::from),
        Err(error) => Err(error),
    };
    let saved = saved.map_err(OpError::from).and_then(|saved| {
        file.sync_all().map_err(cannot_write(&request.file))?;
        may_be_written(request)?;
        fs::rename(&unfinished, &request.file).map_err(cannot_write(&request.file))?;
        Ok(saved)
    });
    if saved.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    }
    let snapshot = saved?;
    step.done(Outcome::Done);
    Ok(Saved { cluster: request.cluster.clone(), file: request.file.clone(), snapshot })
}

fn may_be_written(request: &Request) -> Result<(), EtcdError> {
    if request.file.symlink_metadata().is_ok() && !request.force {
        return Err(EtcdError::FileExists { file: request.file.clone() });
    }
    Ok(())
}

/// The file beside the wanted one that becomes it when it is whole, readable for its owner alone.
fn create(path: &Path) -> Result<(File, PathBuf), EngineError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // One that a killed command left could have been made by anybody: it is not written into.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_write(path)(error)),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(&unfinished);
    Ok((file.map_err(cannot_write(path))?, unfinished))
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> EngineError {
    move |source| EngineError::Io { action: "write", path: path.to_owned(), source }
}
