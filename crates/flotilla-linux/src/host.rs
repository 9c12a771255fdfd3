//! The one way to start a program on the host.
//!
//! ```no_run
//! # use flotilla_core::Cancel;
//! # use flotilla_linux::host::Command;
//! # fn example() -> Result<(), flotilla_linux::host::CommandError> {
//! let cancel = Cancel::new();
//! let version = Command::new("go").arg("version").cancel(&cancel).run()?.text();
//! Command::new("go").args(["build", "./..."]).cancel(&cancel).stream(|line| drop(line.text))?;
//! # Ok(())
//! # }
//! ```
//!
//! **A child dies with us**, even when we are killed with SIGKILL: it asks the kernel for a SIGKILL of its own
//! (`PR_SET_PDEATHSIG`). The kernel sends that signal when the *thread* that started the child ends, not the
//! process (prctl(2)), so the thread that starts a child must also be the one that waits for it. Every method
//! here that starts a program waits for it before it returns: there is no way to get this wrong from outside.
//! The signal reaches the child only, not what the child started, and set-uid programs (sudo) lose it.
//!
//! A program's output is bytes from elsewhere: it need not be UTF-8 and may use `\r` to overwrite a line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use flotilla_core::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

mod error;
mod lines;
mod running;

pub use error::CommandError;
pub use lines::{Line, Stream};
pub(crate) use running::exit;

use lines::{Splitter, Tail};
use running::Running;

/// How many lines of waiting output a slow reader of [`Command::stream`] lets pile up before the child blocks.
const LINES_IN_FLIGHT: usize = 256;

/// What a pipe holds.
const PIPE: usize = 1 << 16;

/// A program to run on the host, in the making.
///
/// It inherits our environment and working directory; its standard input is empty unless given.
#[derive(Debug)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    /// The variables of our own environment that it gets; all of them if none are named.
    inherited: Option<Vec<OsString>>,
    env: Vec<(OsString, Option<OsString>)>,
    current_dir: Option<PathBuf>,
    root: Option<PathBuf>,
    stdin: Option<File>,
    cancel: Option<Cancel>,
    max_output: Option<usize>,
    /// What errors call it, if not by its own arguments.
    shown_as: Option<Vec<OsString>>,
    /// Descriptors that the program is to have as well, by the same numbers.
    hand_over: Vec<Arc<OwnedFd>>,
    /// Why it cannot be started at all.
    refused: Option<io::Error>,
}

/// What a successful program left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// Everything it wrote to standard output; after [`Command::stream`], only the last lines.
    pub stdout: Vec<u8>,
    /// Everything it wrote to standard error; after [`Command::stream`], only the last lines.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text, without the line ends at its end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches(['\n', '\r']).to_owned()
    }
}

impl Command {
    /// A program by path, or by name as found in PATH.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            inherited: None,
            env: Vec::new(),
            current_dir: None,
            root: None,
            stdin: None,
            cancel: None,
            max_output: None,
            shown_as: None,
            hand_over: Vec::new(),
            refused: None,
        }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Keeps a variable of our own environment from the program.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Gives the program only these variables of our own environment, beside those set by [`Command::env`].
    #[must_use]
    pub fn inherit_only(mut self, names: &[&str]) -> Self {
        self.inherited = Some(names.iter().map(OsString::from).collect());
        self
    }

    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.current_dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Lets the program see `root` as the whole of the file system, with its `/` as the working directory.
    ///
    /// The program itself is looked for there: name it by its absolute path.
    #[must_use]
    pub fn chroot(mut self, root: impl AsRef<Path>) -> Self {
        self.root = Some(root.as_ref().to_owned());
        self
    }

    /// Gives the program an empty standard input. This is the default.
    #[must_use]
    pub fn stdin_null(mut self) -> Self {
        self.stdin = None;
        self
    }

    /// Gives the program a file as standard input.
    #[must_use]
    pub fn stdin(mut self, file: File) -> Self {
        self.stdin = Some(file);
        self
    }

    /// Lets `cancel` end this program: it then runs in a process group of its own.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Lets [`Command::run`] and [`Command::run_within`] kill the program when it has written more than this many bytes to
    /// one of its outputs.
    #[must_use]
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = Some(bytes);
        self
    }

    /// Runs the program to its end and keeps all it wrote. An exit status other than 0 is an error.
    pub fn run(self) -> Result<Output, CommandError> {
        self.run_until(None)
    }

    /// Like [`Command::run`], but for no longer than `limit`: then the program is killed, and this returns whether the
    /// program has ended by then or not. One that is frozen does not.
    pub fn run_within(self, limit: Duration) -> Result<Output, CommandError> {
        self.run_until(Some(limit))
    }

    fn run_until(self, limit: Option<Duration>) -> Result<Output, CommandError> {
        let (start, max) = (Instant::now(), self.max_output.unwrap_or(usize::MAX));
        let mut running = Running::start(self)?;
        let left = || limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let mut output = Output::default();
        let pipes = (running.take_stdout(), running.take_stderr());
        let read = gather(&pipes, &mut output, max, left);
        if matches!(read, Ok(Ended::TooLong)) {
            running.abandon();
            return Err(running.too_much_output(max));
        }
        let ended = matches!(read, Ok(Ended::No)).then_some(None);
        let Some(status) = ended.map_or_else(|| running.wait_within(left()), Ok)? else {
            running.abandon();
            return Err(running.timed_out(limit.unwrap_or_default()));
        };
        if !status.success() {
            return Err(running.failure(status, (Tail::of(&output.stdout), Tail::of(&output.stderr))));
        }
        read.map_err(|source| running.read_error(source))?;
        Ok(output)
    }

    /// Runs the program to its end and hands over each line as it comes, in this thread.
    ///
    /// Lines of one stream keep their order; between the two streams the order is about right. The output
    /// returned holds the last lines only.
    pub fn stream(self, mut on_line: impl FnMut(Line)) -> Result<Output, CommandError> {
        let mut running = Running::start(self)?;
        let (sender, lines) = mpsc::sync_channel(LINES_IN_FLIGHT);
        let stdout_reader = read_lines(running.take_stdout(), Stream::Stdout, sender.clone());
        let stderr_reader = read_lines(running.take_stderr(), Stream::Stderr, sender);
        let (mut stdout, mut stderr) = (Tail::default(), Tail::default());
        for line in lines {
            match line.stream {
                Stream::Stdout => stdout.push(&line.text),
                Stream::Stderr => stderr.push(&line.text),
            }
            on_line(line);
        }
        let read = joined(stdout_reader).and(joined(stderr_reader));
        let status = running.wait()?;
        if !status.success() {
            return Err(running.failure(status, (stdout, stderr)));
        }
        read.map_err(|source| running.read_error(source))?;
        Ok(Output { stdout: stdout.into_bytes(), stderr: stderr.into_bytes() })
    }

    /// Runs the program and gives its standard output to `consume` as it comes.
    ///
    /// What `consume` leaves unread is drained, so that a reader which knows where its data ends (tar) does not
    /// break the program's pipe. When both fail, the error is that of whichever failed first: the program's if
    /// `consume` had come to the end of its output, else the one of `consume`.
    pub fn pipe_stdout<T>(
        self,
        consume: impl FnOnce(&mut dyn Read) -> io::Result<T>,
    ) -> Result<T, CommandError> {
        let mut running = Running::start(self)?;
        let mut stderr_pipe = running.take_stderr();
        let stderr_reader = thread::spawn(move || {
            let mut tail = Tail::default();
            let mut splitter = Splitter::default();
            let read = splitter.read_all(&mut stderr_pipe, |text| {
                tail.push(&text);
                true
            });
            read.map(|()| tail)
        });
        let mut stdout = EndSeen { inner: running.take_stdout(), ended: false };
        let consumed = consume(&mut stdout);
        let consumed = consumed.and_then(|value| io::copy(&mut stdout, &mut io::sink()).map(|_| value));
        let ended = stdout.ended;
        // Closes our end: a program that still writes gets SIGPIPE instead of waiting for ever.
        drop(stdout);
        let stderr = joined(stderr_reader);
        let status = running.wait()?;
        match consumed {
            Err(source) if status.success() || !ended => Err(running.read_error_or_cancelled(source)),
            Ok(value) if status.success() => Ok(value),
            _ => Err(running.failure(status, (Tail::default(), stderr.unwrap_or_default()))),
        }
    }

    /// Lets the program take our place: it has our process number, our standard streams and our terminal, and its exit
    /// status is ours. Returns only if that fails.
    pub fn replace_us(self) -> CommandError {
        let (program, error) = (self.shown_program(), self.to_std_inherited().exec());
        match error.kind() {
            io::ErrorKind::NotFound => CommandError::NotFound { program },
            _ => CommandError::Start { program, source: error },
        }
    }

    /// Starts the program with these standard streams, apart from our process group and from the thread that starts it. For
    /// a stage that ends by itself when we do, and for a caller who reaps it.
    pub(crate) fn start_apart(self, [stdin, stdout, stderr]: [Stdio; 3]) -> Result<Child, CommandError> {
        let mut command = self.to_std_inherited();
        command.process_group(0).stdin(stdin).stdout(stdout).stderr(stderr);
        command.spawn().map_err(|source| CommandError::Start { program: self.shown_program(), source })
    }

    /// Lets errors of the running program name what it stands for instead of itself.
    pub(crate) fn shown_as(mut self, argv: &[String]) -> Self {
        self.shown_as = Some(argv.iter().map(OsString::from).collect());
        self
    }

    /// Gives the program a descriptor that we have, whose number stays the same.
    pub(crate) fn hand_over(mut self, descriptor: &Arc<OwnedFd>) -> Self {
        self.hand_over.push(Arc::clone(descriptor));
        self
    }

    /// Makes the start fail, for a builder that found out too late to say so itself.
    pub(crate) fn refused(mut self, error: io::Error) -> Self {
        self.refused = Some(error);
        self
    }

    /// The program and its arguments as one could type them into a shell.
    fn shown_argv(&self) -> String {
        let own = || std::iter::once(&self.program).chain(&self.args).collect();
        let words: Vec<_> = self.shown_as.as_ref().map_or_else(own, |argv| argv.iter().collect());
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        // A word with a NUL cannot be typed, but it can be shown.
        shlex::Quoter::new().allow_nul(true).join(words.iter().map(AsRef::as_ref)).unwrap_or_default()
    }

    /// The program's name once it runs.
    fn shown_program(&self) -> String {
        let shown = self.shown_as.as_ref().and_then(|argv| argv.first()).unwrap_or(&self.program);
        shown.to_string_lossy().into_owned()
    }

    fn to_std(&self) -> std::process::Command {
        let mut command = self.to_std_inherited();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[expect(clippy::disallowed_methods, reason = "this is the replacement that the lint names")]
    fn to_std_inherited(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args);
        if let Some(inherited) = &self.inherited {
            for (name, _) in std::env::vars_os().filter(|(name, _)| !inherited.contains(name)) {
                command.env_remove(name);
            }
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.current_dir {
            command.current_dir(dir);
        }
        if !self.hand_over.is_empty() {
            running::keep_open(&mut command, self.hand_over.clone());
        }
        command
    }
}

/// Whether all that could be read was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    No,
    Yes,
    /// There is more than there may be.
    TooLong,
}

/// Reads both pipes to their ends, or until there is no time left or `max` bytes of one of them were read. Both at once: a program that fills the one that is not
/// read would wait for ever.
fn gather(
    (stdout, stderr): &(ChildStdout, ChildStderr),
    output: &mut Output,
    max: usize,
    left: impl Fn() -> Option<Duration>,
) -> io::Result<Ended> {
    let mut open = [Some((stdout.as_fd(), &mut output.stdout)), Some((stderr.as_fd(), &mut output.stderr))];
    let mut buffer = vec![0; PIPE];
    while open.iter().any(Option::is_some) {
        let left = left();
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Ended::No);
        }
        let limit = left.map(|left| Timespec::try_from(left).expect("nobody waits for centuries"));
        let mut ready: Vec<_> =
            open.iter().flatten().map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        match poll(&mut ready, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let ready: Vec<_> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (pipe, _) in open.iter_mut().filter(|pipe| pipe.is_some()).zip(ready).filter(|(_, ready)| *ready)
        {
            if let Some((fd, bytes)) = pipe {
                match retry_on_intr(|| rustix::io::read(*fd, &mut buffer[..]))? {
                    0 => *pipe = None,
                    read if bytes.len() + read > max => return Ok(Ended::TooLong),
                    read => bytes.extend_from_slice(&buffer[..read]),
                }
            }
        }
    }
    Ok(Ended::Yes)
}

/// Sends every line of a pipe to the receiver, from a thread of its own, until either of them ends.
fn read_lines(
    mut pipe: impl Read + Send + 'static,
    stream: Stream,
    sender: mpsc::SyncSender<Line>,
) -> thread::JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        Splitter::default().read_all(&mut pipe, |text| sender.send(Line { stream, text }).is_ok())
    })
}

/// A reader's result; its panic goes on in this thread.
fn joined<T>(reader: thread::JoinHandle<io::Result<T>>) -> io::Result<T> {
    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Remembers whether the end of a stream has been read.
struct EndSeen<R> {
    inner: R,
    ended: bool,
}

impl<R: Read> Read for EndSeen<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.ended |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
