//! Runs one program in namespaces of its own, on a root of its own, and leaves nothing behind.
//!
//! ```text
//! caller            the program that wants something run: Command::run, stream, cancel
//!   └─ outer        this binary again, as supervisor on the host's side: makes the control groups, starts init
//!        │          in a new pid namespace, waits, removes the groups
//!        └─ init    this binary again, as PID 1 inside: all other namespaces, mounts, devices; reaps orphans
//!             └─ argv
//! ```
//!
//! Both stages are fresh processes of one thread, started with a hidden first argument: forking a process that
//! has threads is not safe, and unsharing changes only the thread that does it. The binary's `main` must call
//! [`run_if_stage`] before anything else.
//!
//! Who dies takes everything below along: init dies with outer and the kernel kills a pid namespace with its
//! PID 1. When the caller dies, even of SIGKILL, outer still removes the control groups. Only a SIGKILL of outer
//! itself leaves (empty) groups; the next sandbox with the same group name removes them.
//!
//! Mounts exist in init's mount namespace only. Needs root, and Linux 5.3 or newer (pidfd, detached mounts).
//!
//! It keeps apart, it does not guard: root inside is root, and `/proc/sys` and `/sys` hold settings of the whole host.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};

use crate::cgroup::CgroupError;
use crate::dev::DeviceError;
use crate::host;
use crate::mount::MountError;

mod init;
mod outer;

/// The first argument of the stage that supervises on the host's side. The second is the spec as JSON.
pub const STAGE_OUTER: &str = "__sandbox";

/// The first argument of the stage that is PID 1 inside. The second is the spec as JSON.
pub const STAGE_INIT: &str = "__sandbox-init";

/// The exit status of a sandbox that could not be made, as opposed to its program's own.
pub const EXIT_NOT_MADE: i32 = 125;

/// A program and what it is to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The root file system; it is only read. Mounts below it are not seen.
    pub root: PathBuf,
    /// An empty directory of the host, used as mount point inside; it stays empty.
    pub scratch: PathBuf,
    /// Files and directories of the host to show inside, mounted in this order, after `/proc`, `/dev`, `/run`, `/tmp`.
    pub binds: Vec<Bind>,
    pub hostname: String,
    /// A control group to run in, such as `flotilla/e2e-123`, below the root of each hierarchy of the host.
    /// Made before and removed after. Without one, the program sees the control groups read-only.
    pub cgroup: Option<String>,
    /// The program, by path or by name as found in PATH, and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment; PATH is added if it does not exist.
    pub env: Vec<(String, String)>,
}

/// A file or directory of the host, shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub source: PathBuf,
    /// Where, as the program sees it; made if it does not exist.
    pub target: PathBuf,
    pub read_only: bool,
}

/// A sandbox could not be made. Printed by its stages as one line, which ends up in the tail of the
/// [`host::CommandError`] of whoever wanted it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("needs root")]
    NotRoot,
    #[error("cannot read the spec")]
    Spec { source: serde_json::Error },
    #[error("there is no program to run")]
    NoProgram,
    #[error("this stage is for PID 1 of a new namespace")]
    NotInit,
    #[error("cannot watch for signals")]
    Signals { source: io::Error },
    #[error("cannot make a new {what} namespace")]
    Namespace { what: &'static str, source: io::Error },
    #[error("cannot set the host name {hostname}")]
    Hostname { hostname: String, source: io::Error },
    #[error("cannot bring the loopback link up")]
    Loopback { source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("cannot start {program}")]
    Start { program: String, source: io::Error },
    #[error("cannot wait for {program}")]
    Wait { program: String, source: io::Error },
}

/// The command that runs `spec`, by means of the running binary.
///
/// Its exit status is the program's, 128 + n if signal n ended that, or [`EXIT_NOT_MADE`].
pub fn command(spec: &Spec) -> host::Command {
    command_with(Path::new("/proc/self/exe"), spec)
}

/// The command that runs `spec`, by means of a binary whose `main` calls [`run_if_stage`].
pub fn command_with(program: &Path, spec: &Spec) -> host::Command {
    match serde_json::to_string(spec) {
        Ok(json) => host::Command::new(program).arg(STAGE_OUTER).arg(json).shown_as(&spec.argv),
        // A path that is not UTF-8.
        Err(error) => host::Command::new(program).refused(error.into()),
    }
}

/// Runs a stage if the arguments (with the program's own name first) ask for one, and gives its exit status.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_stage(args: &[OsString]) -> Option<i32> {
    let stage = match args.get(1)?.to_str()? {
        STAGE_OUTER => outer::run,
        STAGE_INIT => init::run,
        _ => return None,
    };
    let json = args.get(2).map(|json| json.to_string_lossy()).unwrap_or_default();
    let spec = serde_json::from_str(&json).map_err(|source| SandboxError::Spec { source });
    Some(spec.and_then(|spec| stage(&spec)).unwrap_or_else(|error| {
        crate::machine::tell("sandbox", &error);
        EXIT_NOT_MADE
    }))
}

/// Gives this process every kind of namespace but a pid namespace, which only its children could be in. The control
/// group it is in becomes the root of what is seen inside. An error says which could not be made.
#[expect(unsafe_code, reason = "unshare")]
pub(crate) fn unshare_the_rest() -> Result<(), (&'static str, io::Error)> {
    let namespaces = [
        ("mount", UnshareFlags::NEWNS),
        ("network", UnshareFlags::NEWNET),
        ("UTS", UnshareFlags::NEWUTS),
        ("IPC", UnshareFlags::NEWIPC),
        ("cgroup", UnshareFlags::NEWCGROUP),
    ];
    for (what, flag) in namespaces {
        // SAFETY: no file descriptor tables are unshared, which is the only thing that can go wrong.
        unsafe { unshare_unsafe(flag) }.map_err(|errno| (what, errno.into()))?;
    }
    Ok(())
}

impl Spec {
    /// The program's name, for errors.
    fn program(&self) -> Result<&str, SandboxError> {
        self.argv.first().map(String::as_str).ok_or(SandboxError::NoProgram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            root: "/".into(),
            scratch: "/tmp/x".into(),
            binds: vec![Bind { source: "/a".into(), target: "/b".into(), read_only: true }],
            hostname: "box".into(),
            cgroup: None,
            argv: vec!["sh".into(), "-c".into(), "a b".into()],
            env: vec![("A".into(), "b".into())],
        }
    }

    #[test]
    fn other_arguments_are_none_of_its_business() {
        for args in [&["flotilla"][..], &["flotilla", "start"], &["flotilla", "start", STAGE_OUTER], &[]] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert_eq!(run_if_stage(&args), None);
        }
    }

    #[test]
    fn a_spec_survives_the_way_to_its_stage() {
        let json = serde_json::to_string(&spec()).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec());
    }

    #[test]
    fn errors_name_the_program_inside_not_the_stage() {
        let error = command_with(Path::new("/bin/false"), &spec()).run().unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'a b'` failed with exit status 1");
    }

    #[test]
    fn a_path_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let root = PathBuf::from(OsString::from_vec(vec![0xff]));
        let error = command_with(Path::new("/bin/true"), &Spec { root, ..spec() }).run().unwrap_err();
        assert!(matches!(error, host::CommandError::Start { .. }), "{error:?}");
    }
}
