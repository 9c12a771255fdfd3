//! Between the gate and tests that may run as root: `gate guard PROGRAM [ARGUMENT...]`.
//!
//! A gate that is not root cannot send a signal to what sudo has started, and sudo does not end with it. So this runs behind sudo,
//! and ends the program when its own input ends: the gate closes it at a time limit or when it is interrupted, the kernel when the
//! gate is killed. Until the program and all that it started have ended, it holds a lock for which the next run waits.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::{Signal, getpid, kill_process};

use crate::lock;
use crate::program::{Interruption, Program, end, pause};
use crate::run::INTERRUPTED;

pub(crate) const WORD: &str = "guard";
/// A shell adds a signal's number to this.
const SIGNALLED: i32 = 128;

pub(crate) fn main(argv: Vec<OsString>) -> Result<ExitCode> {
    let interruption = Interruption::watch()?;
    let ended = interruption.clone();
    thread::spawn(move || {
        // The gate writes nothing: this returns at the end of the input.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        ended.come();
    });
    let lock = lock::take(&lock::of_guard(), || interruption.came(), |_| ());
    let Some(_lock) = lock.context("cannot lock the tests")? else { return Ok(INTERRUPTED.into()) };
    let mut child = Program::new(argv).command().process_group(0).stdin(Stdio::null()).spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interruption.came() {
            break end(&mut child)?;
        }
        pause();
    };
    Ok(pass_on(status))
}

/// Ends as the program did, so that the report says how.
fn pass_on(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(getpid(), signal);
        }
        return u8::try_from(SIGNALLED + signal).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
