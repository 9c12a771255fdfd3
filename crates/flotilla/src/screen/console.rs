//! Where text goes, and where answers come from: the process's own streams, or memory in tests.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

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

    /// Writes a line to standard output.
    pub(crate) fn out(&self, text: &str) -> io::Result<()> {
        match &self.0 {
            Streams::Process => writeln!(anstream::stdout(), "{text}"),
            Streams::Memory(captured) => {
                append(&mut lock(captured).stdout, text);
                Ok(())
            }
        }
    }

    /// Writes a line to standard error. Where that fails, nobody is left to be told.
    pub(crate) fn err(&self, text: &str) {
        match &self.0 {
            Streams::Process => drop(writeln!(anstream::stderr(), "{text}")),
            Streams::Memory(captured) => append(&mut lock(captured).stderr, text),
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

fn append(to: &mut String, text: &str) {
    to.push_str(&anstream::adapter::strip_str(text).to_string());
    to.push('\n');
}

fn lock(captured: &Mutex<Captured>) -> std::sync::MutexGuard<'_, Captured> {
    captured.lock().unwrap_or_else(PoisonError::into_inner)
}
