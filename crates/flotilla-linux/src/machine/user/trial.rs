//! Whether machines of a directory can have user namespaces, found out by making one, without PID 1.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use flotilla_core::explain::one_line;
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use super::super::{Capacity, MachineError, Spec};
use super::{NODEV, Sources, enter, unshare};
use crate::cgroup::Layout;
use crate::host;
use crate::inherited;
use crate::mount::{self, Attributes, DATA_ONLY_ATTR, Detached, MountError};
use crate::trial::Place;
use crate::user::Ids;

/// The first argument of the stage that does what a launcher does. The second is what to try, as JSON.
const STAGE_OUTER: &str = "__user-trial";
/// The same of the stage that does what PID 1 does.
const STAGE_INNER: &str = "__user-trial-init";

/// What a host lacks for a machine in a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lack {
    /// They cannot be made at all.
    Namespaces,
    /// The file system of the directory cannot show other owners.
    Owners,
    /// No overlay can be mounted in one on that directory.
    Overlay,
    /// Proc or sysfs cannot be mounted in one.
    Proc,
    /// Something else, or it could not be tried.
    Other,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What is missing, and how that was seen; nothing: it works.
    pub lack: Option<(Lack, String)>,
    /// Directories and files that cannot be mounted into such a machine, with the reason: their file system cannot show other
    /// owners.
    pub not_mounted: Vec<(PathBuf, String)>,
}

/// What to try.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    place: PathBuf,
    mounts: Vec<PathBuf>,
    ids: Ids,
}

/// Tries whether a machine in a user namespace with these ids can live in `folder`, and whether `mounts` can be mounted into it.
/// Leaves nothing behind. Needs root, and that `main` calls [`run_if_launcher`](super::super::run_if_launcher).
pub fn try_machine(folder: &Path, mounts: &[PathBuf], ids: Ids) -> Trial {
    let untried = |why: String| Trial { lack: Some((Lack::Other, why)), not_mounted: Vec::new() };
    let place = match Place::make(folder) {
        Ok(place) => place,
        Err(error) => return untried(format!("cannot write to {}: {error}", folder.display())),
    };
    let wanted = Wanted { place: place.0.clone(), mounts: mounts.to_vec(), ids };
    let json = match serde_json::to_string(&wanted) {
        Ok(json) => json,
        Err(error) => return untried(error.to_string()),
    };
    match host::Command::new("/proc/self/exe").arg(STAGE_OUTER).arg(json).run() {
        Err(error) => untried(one_line(&error)),
        Ok(output) => serde_json::from_str(&output.text()).unwrap_or_else(|error| untried(error.to_string())),
    }
}

pub(in super::super) fn run_if_stage(args: &[OsString]) -> Option<i32> {
    let result = match args.get(1)?.to_str()? {
        STAGE_OUTER => {
            let wanted = args.get(2).map(|json| serde_json::from_slice(json.as_encoded_bytes()));
            wanted.map(|wanted| wanted.map(|wanted| json(&outer(&wanted))).map_err(io::Error::from))
        }
        STAGE_INNER => Some(Ok(json(&inner().map_err(|error| lack(&error)).err()))),
        _ => return None,
    };
    let told = result.map(|text| text.and_then(|text| io::stdout().write_all(text.as_bytes())));
    Some(i32::from(!matches!(told, Some(Ok(())))))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it is plain data")
}

fn outer(wanted: &Wanted) -> Trial {
    inherited::shed(&[]);
    let not_mounted = wanted.mounts.iter().filter_map(|source| {
        let error = try_mount(source, wanted.ids).err()?;
        Some((source.clone(), one_line(&error)))
    });
    let not_mounted = not_mounted.collect();
    let lack = match run_inner(wanted) {
        Ok(lack) => lack,
        Err(error) => Some(lack(&error)),
    };
    Trial { lack, not_mounted }
}

/// Whether a source can be shown with other owners. One that does not exist is reported elsewhere.
fn try_mount(source: &Path, ids: Ids) -> Result<(), MachineError> {
    use std::os::fd::AsFd;
    if !source.exists() {
        return Ok(());
    }
    // Without namespaces at all, that is what is reported.
    let Ok(namespace) = ids.namespace() else { return Ok(()) };
    Ok(Detached::with_mounts_of(source)?.change(NODEV, Some(namespace.as_fd()))?)
}

#[expect(clippy::disallowed_methods, reason = "it is in namespaces that this process has made for it")]
fn run_inner(wanted: &Wanted) -> Result<Option<(Lack, String)>, MachineError> {
    let var = wanted.place.join("var");
    fs::create_dir(&var).map_err(|source| MachineError::Make { path: var.clone(), source })?;
    let program = enter(&spec(&wanted.place, var, wanted.ids), wanted.ids, &Layout::None)?;
    let failed = |source| MachineError::Start { source };
    let output = Command::new(program).arg(STAGE_INNER).output().map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.into()))
}

fn spec(place: &Path, var: PathBuf, ids: Ids) -> Spec {
    Spec {
        hostname: "trial".into(),
        root: place.join("lower"),
        folder: place.to_owned(),
        var,
        binds: Vec::new(),
        mounts: Vec::new(),
        own: Vec::new(),
        shared: None,
        links: Vec::new(),
        capacity: Capacity::default(),
        uuid: String::new(),
        ids: Some(ids),
    }
}

/// What the root of such a machine takes: see `root`.
fn inner() -> Result<(), MachineError> {
    let ids = Ids { first: 0, count: 0 };
    let sources = Sources::of(&spec(Path::new("/"), PathBuf::new(), ids));
    drop(Detached::filesystem("proc", DATA_ONLY_ATTR)?);
    drop(Detached::filesystem("sysfs", DATA_ONLY_ATTR)?);
    let merged = mount::lasting_overlay(&sources.root, &sources.folder, Attributes::User)?;
    mount::pivot_into(&merged)?;
    // A whiteout, and a file that root of the machine owns.
    let path = Path::new("/old");
    fs::remove_file(path).and_then(|()| fs::write(path, "new")).map_err(|source| {
        MachineError::Mount(MountError::Mount { what: "overlay".into(), target: path.to_owned(), source })
    })?;
    // A container has a namespace of its own below it.
    unshare("mount", UnshareFlags::NEWNS)
}

fn lack(error: &MachineError) -> (Lack, String) {
    let lack = match error {
        MachineError::Namespace { .. } => Lack::Namespaces,
        MachineError::Mount(MountError::Owners { .. }) => Lack::Owners,
        MachineError::Mount(MountError::Mount { .. }) => Lack::Overlay,
        MachineError::Mount(MountError::Make { .. }) => Lack::Proc,
        _ => Lack::Other,
    };
    (lack, one_line(error))
}
