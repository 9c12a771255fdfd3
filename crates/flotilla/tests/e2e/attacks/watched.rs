//! Commands that a node may try to hold up or to fill.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Tried;

/// How long a command may take that a node does everything to hold up.
const LIMIT: Duration = Duration::from_secs(100);
/// How much memory it may use, in KiB. A debug build that talks to the API server uses some 60 MiB.
const MOST_MEMORY: u64 = 300 << 10;
/// How much of its output is kept.
const MOST_OUTPUT: u64 = 8 << 20;

pub(super) struct Watched {
    pub(super) output: String,
    pub(super) elapsed: Duration,
    ended: bool,
    peak: u64,
}

impl Watched {
    /// Runs the command to its end, or kills it after [`LIMIT`].
    pub(super) fn run(mut command: Command) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer.try_clone().unwrap()).stderr(writer).stdin(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(command);
        let read = std::thread::spawn(move || {
            let (mut text, mut reader) = (Vec::new(), reader);
            let _ = (&mut reader).take(MOST_OUTPUT).read_to_end(&mut text);
            let _ = std::io::copy(&mut reader, &mut std::io::sink());
            String::from_utf8_lossy(&text).into_owned()
        });
        let begun = Instant::now();
        let mut peak = 0;
        let wait = || {
            peak = peak.max(memory(&child));
            match child.try_wait().unwrap() {
                Some(_) => Ok(()),
                None => Err(()),
            }
        };
        let ended = flotilla_linux::poll::until(LIMIT, wait, |()| false).is_ok();
        let elapsed = begun.elapsed();
        // It does no harm to one that has ended.
        drop(child.kill());
        drop(child.wait());
        Self { output: read.join().unwrap(), elapsed, ended, peak }
    }

    /// Whether it was held up or filled, in the words of a result.
    pub(super) fn tried(&self) -> Tried {
        let what = format!("{:.1} s, {} MiB", self.elapsed.as_secs_f64(), self.peak >> 10);
        if !self.ended {
            Tried::Works(format!("it hangs: {what}"))
        } else if self.peak > MOST_MEMORY {
            Tried::Works(format!("it swells: {what}"))
        } else {
            Tried::Stopped(what)
        }
    }
}

/// The most memory that a process has had, in KiB. 0 for one that has ended.
fn memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}
