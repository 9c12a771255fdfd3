//! A sealed place to run the program in.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::directory::directory;
use crate::filter::Filter;
use crate::network::own_network;
use crate::ran::{Ran, Seen};
use crate::running::Running;
use crate::terminal;

/// A user's home with nothing in it, and the program under test. Gone when dropped.
///
/// The program, and the thread that made the home, have a network of their own ([`own_network`](crate::own_network)).
///
/// Of our environment the program sees only PATH; HOME is this directory and `FLOTILLA_HOME` one
/// below it. All three can be set otherwise.
#[derive(Debug)]
pub struct Home {
    program: PathBuf,
    folder: TempDir,
    env: Vec<(OsString, OsString)>,
}

impl Home {
    /// A new home for this program: `Home::new(env!("CARGO_BIN_EXE_flotilla"))`.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests give the programs of the machine to the one under test"
    )]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        own_network();
        let folder = directory();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let env = vec![
            ("PATH".into(), path),
            ("HOME".into(), folder.path().into()),
            ("FLOTILLA_HOME".into(), folder.path().join("flotilla").into()),
        ];
        Self { program: program.into(), folder, env }
    }

    /// Sets a variable for all runs that follow.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self = self.without_env(&name);
        self.env.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.retain(|(known, _)| known != name.as_ref());
        self
    }

    /// The home itself, which is also the working directory. Printed, it reads `[HOME]`.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The state directory. It does not exist until the program, or the test, makes it.
    pub fn state(&self) -> PathBuf {
        self.path().join("flotilla")
    }

    /// Everything in the home but the logs of commands, sorted, relative to it; directories end with a slash.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut todo = vec![self.path().to_owned()];
        let logs = self.state().join("logs");
        while let Some(folder) = todo.pop() {
            for item in fs::read_dir(&folder).expect("a directory of the home") {
                let item = item.expect("an entry of the home");
                if item.path() == logs {
                    continue;
                }
                let name = item.path().strip_prefix(self.path()).expect("it is below").display().to_string();
                if item.file_type().expect("the type of an entry").is_dir() {
                    todo.push(item.path());
                    found.push(format!("{name}/"));
                } else {
                    found.push(name);
                }
            }
        }
        found.sort();
        found
    }

    /// Runs the program to its end.
    pub fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
        self.start(args).wait()
    }

    /// Starts the program. It is killed if the test ends before it.
    pub fn start(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Running {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start(command, self.filter())
    }

    /// Runs the program when its output is not read, as in `flotilla … | true`.
    pub fn run_unread(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        self.run_into(args, writer)
    }

    /// Runs the program with its standard output going to this file, as in `flotilla … > FILE`.
    pub fn run_into_file(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>, file: &Path) -> Ran {
        let file =
            File::options().write(true).create(true).truncate(true).open(file).expect("a file to write to");
        self.run_into(args, file)
    }

    fn run_into(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>, stdout: impl Into<Stdio>) -> Ran {
        let mut command = self.command(args);
        command.stdout(stdout).stderr(Stdio::piped());
        Running::start(command, self.filter()).wait()
    }

    /// Runs the program on a terminal that is so many columns wide, which is TERM=xterm-256color unless set.
    pub fn run_on_terminal(&self, columns: u16, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Seen {
        terminal::run(columns, self.terminal_command(args), None, self.filter())
    }

    /// The same with a user at the terminal who has typed this.
    pub fn answer_on_terminal(&self, typed: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Seen {
        terminal::run(120, self.terminal_command(args), Some(typed), self.filter())
    }

    fn terminal_command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.command(args);
        if !self.env.iter().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        command
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests want the exit status, not an error, and signal the program"
    )]
    fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    fn filter(&self) -> Filter {
        Filter::new(self.path())
    }
}
