//! A failed use case.

use std::fmt;

use flotilla_core::explain::{self, Code, Explain, INTERRUPTED};

/// An error with its code, its hints and its details, whatever layer it comes from.
#[derive(Debug)]
pub struct OpError(Box<dyn Explain + Send + Sync>);

impl OpError {
    pub fn code(&self) -> Code {
        self.0.code()
    }

    pub fn exit_status(&self) -> u8 {
        self.code().exit_status
    }

    pub fn is_interruption(&self) -> bool {
        self.code().name == INTERRUPTED
    }

    /// What can be done, each thing once.
    pub fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for hint in self.0.hints() {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    /// Lines that belong to the error: the end of a program's output, the files that are damaged.
    pub fn details(&self) -> Vec<String> {
        self.0.details()
    }

    /// The error and its causes, outermost first.
    pub fn chain(&self) -> Vec<String> {
        explain::chain(self.0.as_ref())
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: Explain + Send + Sync + 'static> From<E> for OpError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}
