//! What answers to the name `systemctl` in a node: the handful of verbs that kubeadm and people use.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flotilla_node_api as control;
use flotilla_node_api::{Reply, Request, State, Status, Unit};

use crate::ask::ask;
use crate::root::Root;

// systemctl(1), "Exit status".
const FAILED: i32 = 1;
const NOT_ACTIVE: i32 = 3;
const NO_SUCH_UNIT: i32 = 4;
const NOT_INSTALLED: i32 = 5;

/// Options that people write and that change nothing here.
const HARMLESS: [&str; 8] =
    ["--no-pager", "--no-legend", "--no-block", "--system", "--full", "-l", "--plain", "--no-ask-password"];

/// Runs `systemctl` in a node and gives its exit status. The arguments are without the program's own name.
pub fn systemctl(args: &[OsString]) -> i32 {
    systemctl_in(Path::new("/"), args)
}

/// Runs `systemctl` for the node whose root is seen at `root`, such as `/proc/PID/root`.
pub fn systemctl_in(root: &Path, args: &[OsString]) -> i32 {
    let socket = Root::new(root).control_socket();
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let status = Call::parse(&args).and_then(|call| call.run(&socket, &mut out));
    status.unwrap_or_else(|error| {
        let mut line = format!("systemctl: {error}");
        if let Some(cause) = std::error::Error::source(&error) {
            line = format!("{line}: {cause}");
        }
        // Where nobody reads it, it is lost.
        drop(writeln!(err, "{line}"));
        error.exit_status()
    })
}

/// Why `systemctl` could not do its work.
#[derive(Debug, thiserror::Error)]
enum SystemctlError {
    #[error("unknown option {0}")]
    Option(String),
    #[error("unknown command {0}")]
    Command(String),
    #[error("a command is missing: {}", Verb::all())]
    NoCommand,
    #[error("the name of a service is missing")]
    NoUnit,
    #[error("unit {0} not found")]
    NoSuchUnit(String),
    #[error("cannot ask PID 1 at {}", socket.display())]
    Ask { socket: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("cannot print")]
    Print { source: io::Error },
}

impl SystemctlError {
    fn exit_status(&self) -> i32 {
        match self {
            Self::NoSuchUnit(_) => NOT_INSTALLED,
            _ => FAILED,
        }
    }
}

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    verb: Verb,
    units: Vec<String>,
    quiet: bool,
    /// Whether `enable` and `disable` also start and stop.
    now: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    DaemonReload,
    Disable,
    Enable,
    IsActive,
    IsEnabled,
    Restart,
    Start,
    Status,
    Stop,
}

impl Verb {
    const NAMES: [(&'static str, Self); 9] = [
        ("daemon-reload", Self::DaemonReload),
        ("disable", Self::Disable),
        ("enable", Self::Enable),
        ("is-active", Self::IsActive),
        ("is-enabled", Self::IsEnabled),
        ("restart", Self::Restart),
        ("start", Self::Start),
        ("status", Self::Status),
        ("stop", Self::Stop),
    ];

    fn all() -> String {
        Self::NAMES.map(|(name, _)| name).join(", ")
    }
}

impl Call {
    fn parse(args: &[String]) -> Result<Self, SystemctlError> {
        let (mut quiet, mut now) = (false, false);
        let mut words = Vec::new();
        for arg in args {
            match arg.as_str() {
                "-q" | "--quiet" => quiet = true,
                "--now" => now = true,
                option if HARMLESS.contains(&option) => {}
                option if option.starts_with('-') => return Err(SystemctlError::Option(arg.clone())),
                _ => words.push(arg.clone()),
            }
        }
        let mut words = words.into_iter();
        let name = words.next().ok_or(SystemctlError::NoCommand)?;
        let verb = Verb::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, verb)| verb);
        let verb = verb.ok_or(SystemctlError::Command(name))?;
        let units: Vec<_> = words.collect();
        if units.is_empty() && verb != Verb::DaemonReload {
            return Err(SystemctlError::NoUnit);
        }
        Ok(Self { verb, units, quiet, now })
    }

    /// Does it for each unit; the exit status is the highest.
    fn run(&self, socket: &Path, out: &mut impl Write) -> Result<i32, SystemctlError> {
        let mut highest = 0;
        for unit in &self.units {
            let (said, status) = self.run_for(unit, socket)?;
            if !self.quiet && !said.is_empty() {
                writeln!(out, "{said}").map_err(|source| SystemctlError::Print { source })?;
            }
            highest = highest.max(status);
        }
        Ok(highest)
    }

    /// What to print, and the exit status.
    fn run_for(&self, name: &str, socket: &Path) -> Result<(String, i32), SystemctlError> {
        let ask = |verb| ask_for_status(socket, verb, Unit::named(name));
        let tell = |verb| match ask(verb)? {
            Some(_) => Ok((String::new(), 0)),
            None => Err(SystemctlError::NoSuchUnit(name.to_owned())),
        };
        match self.verb {
            Verb::Start => tell(control::Verb::Start),
            Verb::Stop => tell(control::Verb::Stop),
            Verb::Restart => tell(control::Verb::Restart),
            Verb::Enable if self.now => tell(control::Verb::Start),
            Verb::Disable if self.now => tell(control::Verb::Stop),
            Verb::Enable | Verb::Disable | Verb::DaemonReload => Ok((String::new(), 0)),
            Verb::IsEnabled => Ok(match ask(control::Verb::Status)? {
                Some(_) => ("enabled".to_owned(), 0),
                None => ("disabled".to_owned(), FAILED),
            }),
            Verb::IsActive | Verb::Status => {
                let Some(status) = ask(control::Verb::Status)? else { return Ok(self.unknown(name)) };
                let said =
                    if self.verb == Verb::Status { status.to_string() } else { status.state.to_string() };
                Ok((said, if status.state == State::Active { 0 } else { NOT_ACTIVE }))
            }
        }
    }

    fn unknown(&self, name: &str) -> (String, i32) {
        match self.verb {
            // Kubeadm looks for these words on standard output.
            Verb::Status => (format!("Unit {name} could not be found."), NO_SUCH_UNIT),
            _ => (State::Inactive.to_string(), NOT_ACTIVE),
        }
    }
}

/// The status of a service; none if the node has no such service.
fn ask_for_status(socket: &Path, verb: control::Verb, unit: Unit) -> Result<Option<Status>, SystemctlError> {
    match ask(socket, &Request::Unit { verb, unit }) {
        Ok(Reply::Status(status)) => Ok(Some(status)),
        Ok(Reply::NoSuchUnit(_)) => Ok(None),
        Ok(Reply::Refused(why)) => Err(SystemctlError::Refused(why)),
        Ok(Reply::Node(_)) => Err(SystemctlError::Refused("PID 1 answered something else".to_owned())),
        Err(source) => Err(SystemctlError::Ask { socket: socket.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests;
