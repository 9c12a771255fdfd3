//! A machine in a user namespace: its root is nobody on the host.
//!
//! ```text
//! launcher, root of the host      user namespace; a directory in memory, the stage, with all that the machine is made of: files
//!                                 shown with the owners of the namespace, devices; the stage becomes its root
//! launcher, root of the machine   all other namespaces, which belong to the user namespace; starts PID 1
//! PID 1                           proc and sysfs, while those of the host are in sight; then as without: see `root`
//! ```
//!
//! The mount namespace is made when the stage is full: so the kernel keeps the machine from changing flags that mounts of the
//! stage have, and from looking below them.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::chown;
use rustix::mount::{MountAttrFlags, MountFlags};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::{MachineError, Spec};
use crate::cgroup::Layout;
use crate::dev::{self, Device};
use crate::mount::{self, Detached, MountError};
use crate::sandbox::Bind;
use crate::user::{self, Ids};

mod trial;

pub(super) use trial::run_if_stage;
pub use trial::{Lack, Trial, try_machine};

const ROOT: &str = "/root";
const FOLDER: &str = "/folder";
const VAR: &str = "/var";
const DEV: &str = "/dev";
const BINDS: &str = "/binds";
const MOUNTS: &str = "/mounts";
const SHARED: &str = "/shared";
/// Our own binary.
const PROGRAM: &str = "/program";
/// The host's control groups, whose mounts are not on the stage.
const LAYOUT: &str = "/layout.json";

/// As much as PID 1 gives to its children. Only root of the host may allow it.
const OPEN_FILES: u64 = 1 << 20;

const RDONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;
const NODEV: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV;
const NOSUID: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;

/// Where PID 1 finds what the machine is made of.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) root: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) var: PathBuf,
    pub(super) binds: Vec<PathBuf>,
    pub(super) mounts: Vec<PathBuf>,
    pub(super) shared: Option<PathBuf>,
}

impl Sources {
    pub(super) fn of(spec: &Spec) -> Self {
        let sources = |binds: &[Bind]| binds.iter().map(|bind| bind.source.clone()).collect();
        let numbered = |name: &str, binds: &[Bind]| {
            (0..binds.len()).map(|number| Path::new(name).join(number.to_string())).collect()
        };
        match spec.ids {
            None => Self {
                root: spec.root.clone(),
                folder: spec.folder.clone(),
                var: spec.var.clone(),
                binds: sources(&spec.binds),
                mounts: sources(&spec.mounts),
                shared: spec.shared.as_ref().map(|shared| shared.directory.clone()),
            },
            Some(_) => Self {
                root: ROOT.into(),
                folder: FOLDER.into(),
                var: VAR.into(),
                binds: numbered(BINDS, &spec.binds),
                mounts: numbered(MOUNTS, &spec.mounts),
                shared: spec.shared.as_ref().map(|_| SHARED.into()),
            },
        }
    }
}

/// Makes the user namespace and everything in it but PID 1, and moves this process there. Gives the program that PID 1 is to run.
pub(super) fn enter(spec: &Spec, ids: Ids, layout: &Layout) -> Result<PathBuf, MachineError> {
    let failed = |source| MachineError::Namespace { what: "user", source };
    // It may be forbidden, and nodes of such a host have what they get.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) });
    let namespace = ids.namespace().map_err(failed)?;
    // Before the next line: the link leads to a mount of the namespace that we were started in.
    let program = read_only(Detached::of(Path::new("/proc/self/exe"))?, namespace.as_fd())?;
    unshare("mount", UnshareFlags::NEWNS)?;
    mount::make_all_private()?;
    set_stage(spec, ids, namespace.as_fd(), layout, program)?;
    user::join(namespace.as_fd()).map_err(failed)?;
    // At once: all of them belong to the user namespace, and the mounts of the stage are locked.
    let all = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWCGROUP;
    unshare("machine's", all)?;
    Ok(PROGRAM.into())
}

#[expect(unsafe_code, reason = "unshare")]
fn unshare(what: &'static str, flags: UnshareFlags) -> Result<(), MachineError> {
    // SAFETY: no file descriptor tables are unshared, which is the only thing that can go wrong.
    unsafe { unshare_unsafe(flags) }.map_err(|errno| MachineError::Namespace { what, source: errno.into() })
}

/// Fills the stage and makes it the root.
fn set_stage(
    spec: &Spec,
    ids: Ids,
    namespace: BorrowedFd<'_>,
    layout: &Layout,
    program: Detached,
) -> Result<(), MachineError> {
    let owned = Some(namespace);
    let held = |held: Detached, flags, owners| -> Result<Detached, MountError> {
        held.change(flags, owners)?;
        Ok(held)
    };
    // The sources are found while the host's root is in sight.
    let mut props = vec![
        (PathBuf::from(ROOT), held(Detached::of(&spec.root)?, RDONLY | NODEV, owned)?),
        (FOLDER.into(), held(Detached::of(&spec.folder)?, NODEV, owned)?),
        (VAR.into(), held(Detached::of(&spec.var)?, NODEV, owned)?),
        // Without what is mounted below them, so that nothing keeps PID 1 from mounting them.
        ("/proc".into(), Detached::of(Path::new("/proc"))?),
        ("/sys".into(), Detached::of(Path::new("/sys"))?),
        (PROGRAM.into(), program),
    ];
    let sources = Sources::of(spec);
    for (bind, at) in spec.binds.iter().zip(sources.binds) {
        let tree = Detached::of(&bind.source)?;
        props
            .push((at, if bind.read_only { read_only(tree, namespace)? } else { held(tree, NODEV, owned)? }));
    }
    for (shared, at) in spec.shared.iter().zip(sources.shared) {
        props.push((at, held(Detached::of(&shared.directory)?, RDONLY | NOSUID | NODEV, owned)?));
    }
    for (bind, at) in spec.mounts.iter().zip(sources.mounts) {
        let flags = if bind.read_only { RDONLY } else { MountAttrFlags::empty() };
        props.push((at, held(Detached::with_mounts_of(&bind.source)?, flags, owned)?));
    }
    mount::filesystem("tmpfs", &spec.folder, MountFlags::NOSUID, "mode=0755,size=1m")?;
    mount::pivot_into(&spec.folder)?;
    for (at, prop) in props {
        prop.attach(&at, false)?;
    }
    make_devices(ids)?;
    let text = serde_json::to_vec(layout).expect("it is plain data");
    fs::write(LAYOUT, text).map_err(|source| MachineError::Make { path: LAYOUT.into(), source })
}

/// Holds what the machine may only read. What is on a file system that cannot show other owners is shown with its own, who are
/// nobody in the machine: that is enough to read it.
fn read_only(tree: Detached, namespace: BorrowedFd<'_>) -> Result<Detached, MountError> {
    let flags = RDONLY | NOSUID | NODEV;
    tree.change(flags, Some(namespace)).or_else(|_| tree.change(flags, None))?;
    Ok(tree)
}

fn devices() -> impl Iterator<Item = &'static Device> {
    dev::BASIC.iter().chain(dev::OF_A_NODE)
}

/// Makes the machine's devices on the stage: in a user namespace nobody can.
fn make_devices(ids: Ids) -> Result<(), MachineError> {
    dev::make_all(Path::new(DEV), devices())?;
    let (user, group) = ids.root();
    for device in devices() {
        let path = Path::new(DEV).join(device.name);
        chown(&path, Some(user), Some(group))
            .map_err(|errno| MachineError::Make { path, source: errno.into() })?;
    }
    Ok(())
}

/// Takes hold of the devices, from the stage.
pub(super) fn hold_devices() -> Result<Vec<(&'static Device, Detached)>, MachineError> {
    let held = devices().map(|device| Ok((device, Detached::of(&Path::new(DEV).join(device.name))?)));
    held.collect()
}

/// The host's control groups, from the stage.
pub(super) fn layout() -> Result<Layout, MachineError> {
    let read = || Ok(serde_json::from_slice(&fs::read(LAYOUT)?)?);
    read().map_err(|source| MachineError::Make { path: LAYOUT.into(), source })
}
