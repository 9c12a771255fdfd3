//! Running a program to its end, or to its limit.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::log::Log;

/// How long a program may take to clean up when it is asked to end.
const GRACE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Whether somebody wants the run to end, by Ctrl-C or SIGTERM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    pub(crate) fn watch() -> io::Result<Self> {
        let seen = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&seen.0))?;
        }
        Ok(seen)
    }

    pub(crate) fn come(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A program with its arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) argv: Vec<OsString>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) env: Vec<(String, OsString)>,
    /// Whether it is behind a [guard](crate::guard), which ends it.
    pub(crate) is_guarded: bool,
}

impl Program {
    pub(crate) fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    #[must_use]
    pub(crate) fn with(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub(crate) fn with_env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Runs it with its output in the log. Ends it, and all that it has started, at the limit or when the run is interrupted.
    pub(crate) fn run(&self, log: &Log, limit: Duration, interruption: &Interruption) -> io::Result<Ended> {
        let mut command = self.command();
        command.stdin(if self.is_guarded { Stdio::piped() } else { Stdio::null() });
        command.stdout(log.handle()?).stderr(log.handle()?).process_group(0);
        let mut child = command.spawn()?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ended::Status(status));
            }
            if interruption.came() || begun.elapsed() > limit {
                if let Some(input) = child.stdin.take() {
                    drop(input);
                    // The guard's own, and sudo's behind it.
                    end_within(&mut child, GRACE + GRACE)?;
                } else {
                    end(&mut child)?;
                }
                return Ok(if interruption.came() { Ended::Interrupted } else { Ended::TimedOut(limit) });
            }
            pause();
        }
    }

    /// Runs it and gives what it printed on standard output, or nothing if it failed.
    pub(crate) fn answer(&self) -> Option<String> {
        let output = self.command().stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// It dies with us, also if we are killed.
    #[expect(
        clippy::disallowed_methods,
        reason = "the product's wrapper is for hosts and nodes, not for tests"
    )]
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).args(&self.argv);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Status(ExitStatus),
    TimedOut(Duration),
    Interrupted,
}

impl Ended {
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Status(status) if status.success())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => status.fmt(f),
            Self::TimedOut(limit) => write!(f, "killed after {} s, its limit", limit.as_secs()),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// Asks first: a suite deletes the clusters of its tests.
pub(crate) fn end(child: &mut Child) -> io::Result<ExitStatus> {
    // It may have ended by itself meanwhile.
    let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
    end_within(child, GRACE)
}

/// Waits for its end, then kills what is left of it.
fn end_within(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let asked = Instant::now();
    while child.try_wait()?.is_none() && asked.elapsed() < limit {
        pause();
    }
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}

#[expect(clippy::disallowed_methods, reason = "a process and a flag cannot be waited for together")]
pub(crate) fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (tempfile::TempDir, Log) {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::create(&dir.path().join("log")).unwrap();
        (dir, log)
    }

    #[test]
    fn what_a_program_prints_is_in_the_log() {
        let (_dir, log) = log();
        let program = Program::new(["sh", "-c", "echo out; echo $WORD >&2; exit 3"]).with_env("WORD", "err");
        let ended = program.run(&log, Duration::from_mins(1), &Interruption::default()).unwrap();
        assert!(!ended.is_success());
        assert_eq!(ended.to_string(), "exit status: 3");
        assert_eq!(log.since(0).unwrap(), "out\nerr\n");
    }

    #[test]
    fn at_its_limit_a_program_ends_with_all_that_it_started() {
        let (_dir, log) = log();
        let program = Program::new(["sh", "-c", "trap 'echo asked; exit 0' TERM; sleep 600 & wait"]);
        let ended = program.run(&log, Duration::from_secs(1), &Interruption::default()).unwrap();
        assert_eq!(ended.to_string(), "killed after 1 s, its limit");
        assert_eq!(log.since(0).unwrap(), "asked\n");
    }

    #[test]
    fn an_interrupted_run_ends_the_program() {
        let (_dir, log) = log();
        let interruption = Interruption::default();
        interruption.come();
        let ended = Program::new(["sleep", "600"]).run(&log, Duration::from_mins(1), &interruption).unwrap();
        assert_eq!(ended, Ended::Interrupted);
    }
}
