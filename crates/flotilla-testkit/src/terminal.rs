//! A terminal for a program: a pseudo-terminal, and a screen that shows what is sent to it.

use std::fs::File;
use std::process::Command;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::filter::Filter;
use crate::ran::Seen;
use crate::running::Running;

const ROWS: u16 = 60;

/// Runs the program with standard output and error on a terminal that is so many columns wide; its input as well if
/// somebody types there.
pub(crate) fn run(columns: u16, mut command: Command, typed: Option<&str>, filter: Filter) -> Seen {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).expect("a pseudo-terminal");
    unlockpt(&ours).expect("a pseudo-terminal that can be opened");
    let theirs = ioctl_tiocgptpeer(&ours, flags).expect("the other side of the pseudo-terminal");
    let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).expect("a size for the pseudo-terminal");
    if let Some(typed) = typed {
        // Waits in the terminal until it is asked for.
        rustix::io::write(&ours, typed.as_bytes()).expect("a terminal that takes a line");
        command.stdin(theirs.try_clone().expect("a descriptor for its input"));
    }
    command.stdout(theirs.try_clone().expect("a second descriptor")).stderr(theirs);
    let ran = Running::start_with(command, File::from(ours), filter).wait();
    let mut parser = vt100::Parser::new(ROWS, columns, 0);
    parser.process(ran.stdout.as_bytes());
    let rows = parser.screen().rows(0, columns);
    let mut screen: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    while screen.last().is_some_and(String::is_empty) {
        screen.pop();
    }
    Seen { screen, ran }
}
