//! A person at a terminal, for what is only so on one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{PATIENCE, wait_until};

/// A program that has a terminal to itself. It is killed if the test ends before it.
pub(crate) struct Terminal {
    child: Child,
    ours: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Runs the program on a new terminal of so many rows and columns, which controls it: keys send signals.
    #[expect(clippy::disallowed_methods, reason = "the program is watched and signalled")]
    pub(crate) fn run(program: &Command, size: (u16, u16)) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
        resize(&ours, size);
        // It takes its place as the first of a session whose terminal is its standard input.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap());
        }
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let child = command.env("TERM", "xterm").spawn().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (into, mut from) = (Arc::clone(&seen), File::from(ours.try_clone().unwrap()));
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading a terminal that no program has open fails (EIO) instead of ending.
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { child, ours, seen, reader: Some(reader) }
    }

    /// Types; `\r` is the enter key.
    pub(crate) fn keys(&self, keys: &str) {
        File::from(self.ours.try_clone().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    /// Types until this is to be seen: for what happens beside the keys, in its own time.
    pub(crate) fn keys_until(&self, keys: &str, text: &str) {
        wait_until(&format!("{text:?} on the terminal"), PATIENCE, || {
            self.keys(keys);
            let seen = self.seen();
            if seen.contains(text) { Ok(()) } else { Err(seen) }
        });
    }

    /// Drags the window to another size.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        resize(&self.ours, size);
    }

    pub(crate) fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?} on the terminal"), PATIENCE, || {
            let seen = self.seen();
            if seen.contains(text) { Ok(()) } else { Err(seen) }
        });
    }

    /// What keys mean on it.
    pub(crate) fn modes(&self) -> (LocalModes, InputModes) {
        let modes = tcgetattr(&self.ours).unwrap();
        (modes.local_modes, modes.input_modes)
    }

    /// Sends the program a signal.
    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end. Gives the exit status and all that was to be seen.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        self.end_with(|_| ())
    }

    /// The same, with a look at the terminal afterwards.
    pub(crate) fn end_with(mut self, look: impl FnOnce(&Self)) -> (Option<i32>, String) {
        let status = wait_until("the end of the program", PATIENCE, || {
            self.child.try_wait().unwrap().ok_or_else(|| self.seen())
        });
        look(&self);
        self.reader.take().unwrap().join().unwrap();
        (status.code(), self.seen())
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }
}

/// Runs a program that asks once, and answers. Gives all that was to be seen of one that went well.
pub(crate) fn answer(program: &Command, key: &str) -> String {
    let terminal = Terminal::run(program, (40, 200));
    terminal.wait_for("[y/N]");
    terminal.keys(&format!("{key}\r"));
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(0), "{seen}");
    seen
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Neither does anything to a program that has been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn resize(terminal: &OwnedFd, (ws_row, ws_col): (u16, u16)) {
    tcsetwinsize(terminal, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}
