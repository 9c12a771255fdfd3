//! Where text goes, and where answers come from: the process's own streams, or memory in tests.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use flotilla_core::TtySize;
use tokio::sync::mpsc;

use super::escape;
use super::streams::{self, Sink};

/// Standard output, standard error and the user. Clones are handles on the same streams.
#[derive(Debug, Clone)]
pub struct Console(Streams);

#[derive(Debug, Clone)]
enum Streams {
    Process,
    Memory(Arc<Mutex<Captured>>),
}

/// What was written to a console in memory, and what its user answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub stdout: String,
    pub stderr: String,
    /// The answers to come. With none there is nobody to ask.
    pub answers: Vec<bool>,
    /// What is on standard input.
    pub input: Vec<u8>,
}

impl Console {
    /// The streams of this process.
    pub fn of_process() -> Self {
        Self(Streams::Process)
    }

    /// Keeps what is written. There is no terminal; `answers` are given to questions, in this order.
    pub fn in_memory(answers: impl IntoIterator<Item = bool>) -> Self {
        let captured = Captured { answers: answers.into_iter().collect(), ..Captured::default() };
        Self(Streams::Memory(Arc::new(Mutex::new(captured))))
    }

    /// A console in memory with this on standard input.
    #[must_use]
    pub fn with_input(self, input: &[u8]) -> Self {
        if let Streams::Memory(captured) = &self.0 {
            input.clone_into(&mut lock(captured).input);
        }
        self
    }

    /// What a console in memory has so far.
    pub fn captured(&self) -> Captured {
        match &self.0 {
            Streams::Process => Captured::default(),
            Streams::Memory(captured) => lock(captured).clone(),
        }
    }

    /// Whether progress can be drawn on standard error.
    pub(crate) fn has_terminal(&self) -> bool {
        matches!(self.0, Streams::Process) && io::stderr().is_terminal()
    }

    /// Whether standard output is a terminal.
    pub(crate) fn shows_data(&self) -> bool {
        matches!(self.0, Streams::Process) && io::stdout().is_terminal()
    }

    /// Writes a line to standard output.
    pub(crate) fn out(&self, text: &str) -> io::Result<()> {
        match &self.0 {
            Streams::Process => {
                writeln!(anstream::stdout(), "{}", visible(text, io::stdout().is_terminal()))
            }
            Streams::Memory(captured) => {
                append(&mut lock(captured).stdout, text);
                Ok(())
            }
        }
    }

    /// Writes a line to standard error. Where that fails, nobody is left to be told.
    pub(crate) fn err(&self, text: &str) {
        match &self.0 {
            Streams::Process => {
                drop(writeln!(anstream::stderr(), "{}", visible(text, io::stderr().is_terminal())));
            }
            Streams::Memory(captured) => append(&mut lock(captured).stderr, text),
        }
    }

    /// The size of the terminal, if both standard input and output are on one.
    pub(crate) fn tty_size(&self) -> Option<TtySize> {
        match &self.0 {
            Streams::Process => streams::tty_size(),
            Streams::Memory(_) => None,
        }
    }

    /// Whether standard output and error go to the same place.
    pub(crate) fn joins_outputs(&self) -> bool {
        match &self.0 {
            Streams::Process => streams::are_joined(),
            Streams::Memory(_) => false,
        }
    }

    /// Standard input as it comes, to its end.
    pub(crate) fn input(&self) -> mpsc::Receiver<Vec<u8>> {
        match &self.0 {
            Streams::Process => streams::typed(),
            Streams::Memory(captured) => {
                let (sender, typed) = mpsc::channel(1);
                // It has room for one.
                let _ = sender.try_send(std::mem::take(&mut lock(captured).input));
                typed
            }
        }
    }

    /// Takes bytes for standard output.
    pub(crate) fn stdout(&self) -> io::Result<Sink> {
        match &self.0 {
            Streams::Process => streams::of_stdout(),
            Streams::Memory(captured) => Ok(memory_sink(captured, |captured| &mut captured.stdout)),
        }
    }

    /// Takes bytes for standard error.
    pub(crate) fn stderr(&self) -> io::Result<Sink> {
        match &self.0 {
            Streams::Process => streams::of_stderr(),
            Streams::Memory(captured) => Ok(memory_sink(captured, |captured| &mut captured.stderr)),
        }
    }

    /// Asks a user, yes or no. None where nobody can answer.
    pub(crate) fn ask(&self, question: &str) -> Option<bool> {
        match &self.0 {
            Streams::Process if !io::stdin().is_terminal() => None,
            Streams::Process => {
                // Without the end of the line: the answer stands beside its question.
                let mut stderr = anstream::stderr();
                let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
                let mut answer = String::new();
                io::stdin().read_line(&mut answer).ok()?;
                Some(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
            }
            Streams::Memory(captured) => {
                let mut captured = lock(captured);
                if captured.answers.is_empty() {
                    return None;
                }
                let answer = captured.answers.remove(0);
                append(&mut captured.stderr, &format!("{question} [y/N] {answer}"));
                Some(answer)
            }
        }
    }
}

fn memory_sink(captured: &Arc<Mutex<Captured>>, stream: fn(&mut Captured) -> &mut String) -> Sink {
    let captured = Arc::clone(captured);
    let write = move |chunk: &[u8]| {
        stream(&mut lock(&captured)).push_str(&String::from_utf8_lossy(chunk));
        Ok(())
    };
    Sink::new(write, None)
}

/// What a user may see of it: a message may have words in it that a node chose.
fn visible(text: &str, on_terminal: bool) -> Cow<'_, str> {
    if on_terminal { Cow::Owned(escape::message(text)) } else { Cow::Borrowed(text) }
}

fn append(to: &mut String, text: &str) {
    to.push_str(&anstream::adapter::strip_str(text).to_string());
    to.push('\n');
}

fn lock(captured: &Mutex<Captured>) -> std::sync::MutexGuard<'_, Captured> {
    captured.lock().unwrap_or_else(PoisonError::into_inner)
}
