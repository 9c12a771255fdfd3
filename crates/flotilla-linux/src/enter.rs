//! Runs a program inside a running machine: in its namespaces, its control group, its root.
//!
//! By a stage of our own binary, a fresh process of one thread, since a process with threads cannot enter namespaces.
//! It stays between the caller and the program: only a child can be in another pid namespace. It also stays outside of the
//! machine's control group, which only the program joins: what freezes the machine does not freeze us.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

use rustix::io::FdFlags;
use rustix::process::Pid;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupError, Group, Layout};
use crate::process::{self, Process};
use crate::{capabilities, host, inherited, machine, sealed, user};

mod files;
mod session;
mod terminal;

pub use files::{Files, Found, Progress};
pub use session::{OpenError, Opening, open};

use session::Handover;

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
    /// The machine's control group.
    pub group: String,
    pub argv: Vec<String>,
    /// Added to PATH and HOME.
    pub env: Vec<(String, String)>,
}

/// The arguments of the stage.
#[derive(Debug, Serialize, Deserialize)]
struct Handed {
    /// The number of the descriptor that holds PID 1 of the machine.
    machine: RawFd,
    request: Request,
    /// If somebody talks to the program while it runs; else it has our standard streams.
    session: Option<Handover>,
}

impl Handed {
    fn command(machine: &Process, request: &Request, session: Option<Handover>) -> host::Command {
        let handed = Self { machine: machine.as_fd().as_raw_fd(), request: request.clone(), session };
        let json = serde_json::to_string(&handed).expect("it is plain data");
        tracing::debug!("in {}: {}", request.group, request.argv.join(" "));
        let stage = host::Command::new(sealed::own_program()).arg(STAGE).arg(json);
        stage.hand_over(machine.descriptor()).shown_as(&request.argv)
    }
}

#[derive(Debug, thiserror::Error)]
enum EnterError {
    #[error("cannot read the request")]
    Request { source: serde_json::Error },
    #[error("the machine is not running")]
    Gone { source: io::Error },
    #[error("cannot enter the machine's namespaces")]
    Namespaces { source: io::Error },
    #[error("cannot drop capabilities")]
    Capabilities { source: io::Error },
    #[error("cannot make a terminal")]
    Terminal { source: io::Error },
    #[error("cannot run {program}")]
    Run { program: String, source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl EnterError {
    /// Why the program itself could not be run, if that was it.
    fn run_error(&self) -> Option<&io::Error> {
        match self {
            Self::Run { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The command that runs the request in the machine of this PID 1, by means of the running binary.
pub fn command(machine: &Process, request: &Request) -> host::Command {
    Handed::command(machine, request, None)
}

/// Runs the stage if the arguments (with the program's own name first) ask for it, and gives its exit status.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_stage(args: &[OsString]) -> Option<i32> {
    if args.get(1)?.to_str()? != STAGE {
        return None;
    }
    let json = args.get(2).map(|json| json.to_string_lossy()).unwrap_or_default();
    let handed = serde_json::from_str(&json).map_err(|source| EnterError::Request { source });
    Some(handed.and_then(|handed| run(&handed)).unwrap_or_else(|error| {
        machine::tell("flotilla", &error);
        match error.run_error() {
            Some(source) if source.kind() == io::ErrorKind::NotFound => EXIT_NOT_FOUND,
            _ => EXIT_NOT_RUN,
        }
    }))
}

fn run(handed: &Handed) -> Result<i32, EnterError> {
    let Handed { machine, request, session } = handed;
    let (machine, init) = held(*machine).map_err(|source| EnterError::Gone { source })?;
    let Some(session) = session else {
        inherited::shed(&[machine.as_fd()]);
        return wait(&mut enter(&machine, init, request)?, request);
    };
    let control = inherited(session.control).map_err(|source| EnterError::Gone { source })?;
    inherited::shed(&[machine.as_fd(), control.as_fd()]);
    let name = request.argv.first().map_or("nothing", String::as_str);
    Ok(session::run(&control, session.tty, name, || enter(&machine, init, request)))
}

/// Moves us into the machine's namespaces. Gives the program, which will be in its control group as well.
fn enter(machine: &OwnedFd, init: Pid, request: &Request) -> Result<Command, EnterError> {
    capabilities::limit().map_err(|source| EnterError::Capabilities { source })?;
    let layout = Layout::of_host().map_err(|source| CgroupError::Layout { source })?;
    // While the host's control groups are in sight.
    let group = Group::new(&layout, &request.group)?;
    let doors = group.doors(init).map_err(|source| EnterError::Gone { source })?;
    let mut all = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::CONTROL_GROUP;
    let is_own = user::is_another(&Path::new("/proc").join(init.to_string()))
        .map_err(|source| EnterError::Gone { source })?;
    all.set(ThreadNameSpaceType::USER, is_own);
    // SAFETY of entering the mount namespace: we have one thread, so none shares our root and working directory.
    let enter = || Ok(move_into_thread_name_spaces(machine.as_fd(), all)?);
    // If PID 1 has ended meanwhile and its number went to another, the descriptor says so.
    let entered = if is_own { user::enter(enter) } else { enter() };
    entered.map_err(|source| match source.raw_os_error() {
        Some(errno) if errno == rustix::io::Errno::SRCH.raw_os_error() => EnterError::Gone { source },
        _ => EnterError::Namespaces { source },
    })?;
    program(request, doors)
}

/// The process that we were handed, and its number.
fn held(number: RawFd) -> io::Result<(OwnedFd, Pid)> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    let pid = pid.and_then(|pid| pid.trim().parse().ok()).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    // That of a process which has ended is -1.
    let pid = pid.ok_or(rustix::io::Errno::SRCH)?;
    Ok((inherited(number)?, pid))
}

/// A descriptor that we were handed, and that the program does not get.
#[expect(unsafe_code, reason = "a descriptor by its number")]
fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    fs::metadata(format!("/proc/self/fd/{number}"))?;
    // SAFETY: it is open, and only our caller can have opened it for us. Nobody else here has it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

#[expect(clippy::disallowed_methods, reason = "the program has our standard streams")]
fn program(request: &Request, doors: Vec<File>) -> Result<Command, EnterError> {
    let (program, args) = request.argv.split_first().ok_or_else(|| EnterError::Run {
        program: "nothing".into(),
        source: io::ErrorKind::InvalidInput.into(),
    })?;
    let mut command = Command::new(program);
    command.args(args).env_clear().env("PATH", PATH).env("HOME", "/root");
    command.envs(request.env.iter().map(|(name, value)| (name, value))).current_dir("/root");
    inherited::default_signals(&mut command);
    process::die_with_us(&mut command)
        .map_err(|source| EnterError::Run { program: program.clone(), source })?;
    join_groups(&mut command, doors);
    Ok(command)
}

/// Moves the program into the machine's control groups, and not us: in a frozen group we would not even notice that our
/// time is over.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn join_groups(command: &mut Command, doors: Vec<File>) {
    let join = move || {
        for door in &doors {
            // 0 is whoever writes, also where process numbers are those of another namespace (cgroups(7)).
            rustix::io::write(door, b"0")?;
        }
        Ok(())
    };
    // SAFETY: system calls without libc on descriptors that live in the closure, which allocates nothing and takes no
    // lock.
    unsafe { command.pre_exec(join) };
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
