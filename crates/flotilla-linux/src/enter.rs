//! Runs a program inside a running machine: in its namespaces, its control group, its root.
//!
//! By a stage of our own binary, a fresh process of one thread, since a process with threads cannot enter namespaces.
//! It stays between the caller and the program: only a child can be in another pid namespace.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupError, Group, Layout};
use crate::{host, machine};

mod files;
mod terminal;

pub use files::Files;

/// The first argument of the stage. The second is the request as JSON.
pub const STAGE: &str = "__enter";
/// The exit status when the program could not be run at all, as shells have it.
pub const EXIT_NOT_RUN: i32 = 126;
pub const EXIT_NOT_FOUND: i32 = 127;
/// Where programs are looked for in a machine.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program to run in a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// PID 1 of the machine, as the host counts.
    pub init: i32,
    /// The machine's control group.
    pub group: String,
    pub argv: Vec<String>,
    /// Added to PATH and HOME.
    pub env: Vec<(String, String)>,
    /// Gives the program a terminal of the machine's own, tied to ours.
    pub terminal: bool,
}

#[derive(Debug, thiserror::Error)]
enum EnterError {
    #[error("cannot read the request")]
    Request { source: serde_json::Error },
    #[error("the machine is not running")]
    Gone { source: io::Error },
    #[error("cannot enter the machine's namespaces")]
    Namespaces { source: io::Error },
    #[error("cannot make a terminal")]
    Terminal { source: io::Error },
    #[error("cannot run {program}")]
    Run { program: String, source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

/// The command that runs the request, by means of the running binary.
pub fn command(request: &Request) -> host::Command {
    let json = serde_json::to_string(request).expect("it is plain data");
    host::Command::new(Path::new("/proc/self/exe")).arg(STAGE).arg(json).shown_as(&request.argv)
}

/// Runs the stage if the arguments (with the program's own name first) ask for it, and gives its exit status.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_stage(args: &[OsString]) -> Option<i32> {
    if args.get(1)?.to_str()? != STAGE {
        return None;
    }
    let json = args.get(2).map(|json| json.to_string_lossy()).unwrap_or_default();
    let request = serde_json::from_str(&json).map_err(|source| EnterError::Request { source });
    Some(request.and_then(|request| run(&request)).unwrap_or_else(|error| {
        machine::tell("flotilla", &error);
        match error {
            EnterError::Run { source, .. } if source.kind() == io::ErrorKind::NotFound => EXIT_NOT_FOUND,
            _ => EXIT_NOT_RUN,
        }
    }))
}

fn run(request: &Request) -> Result<i32, EnterError> {
    let gone = |errno: rustix::io::Errno| EnterError::Gone { source: errno.into() };
    let init = Pid::from_raw(request.init).ok_or_else(|| gone(rustix::io::Errno::SRCH))?;
    let machine = pidfd_open(init, PidfdFlags::empty()).map_err(gone)?;
    let layout = Layout::of_host().map_err(|source| CgroupError::Layout { source })?;
    // While the host's control groups are in sight.
    Group::new(&layout, &request.group)?.join_leaf()?;
    let all = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::CONTROL_GROUP;
    // SAFETY of entering the mount namespace: we have one thread, so nobody shares our root and working directory.
    move_into_thread_name_spaces(std::os::fd::AsFd::as_fd(&machine), all)
        .map_err(|errno| EnterError::Namespaces { source: errno.into() })?;
    let mut command = program(request)?;
    if request.terminal { terminal::run(command, request) } else { wait(&mut command, request) }
}

#[expect(clippy::disallowed_methods, reason = "the program has our standard streams")]
fn program(request: &Request) -> Result<Command, EnterError> {
    let (program, args) = request.argv.split_first().ok_or_else(|| EnterError::Run {
        program: "nothing".into(),
        source: io::ErrorKind::InvalidInput.into(),
    })?;
    let mut command = Command::new(program);
    command.args(args).env_clear().env("PATH", PATH).env("HOME", "/root");
    command.envs(request.env.iter().map(|(name, value)| (name, value))).current_dir("/root");
    die_with_us(&mut command);
    Ok(command)
}

#[expect(unsafe_code, reason = "code between fork and exec")]
fn die_with_us(command: &mut Command) {
    // SAFETY: one system call without libc, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
}

fn wait(command: &mut Command, request: &Request) -> Result<i32, EnterError> {
    let failed = |source| EnterError::Run { program: request.argv[0].clone(), source };
    let mut child = command.spawn().map_err(failed)?;
    // A signal for the whole process group reaches the program as well: it decides, not we.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT, signal_hook::consts::SIGTERM] {
        ignore(signal).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    Ok(exit_status(status))
}

#[expect(unsafe_code, reason = "a signal handler")]
fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: the handler does nothing at all. It is no SIG_IGN, which the program would inherit.
    unsafe { signal_hook::low_level::register(signal, || {}) }.map(drop)
}

fn exit_status(status: std::process::ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(EXIT_NOT_RUN)
}
