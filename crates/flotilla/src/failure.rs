//! A command's failure, as the screen shows it.

use std::error::Error;

use flotilla_core::{Code, Explain};

/// An error that knows its code and its hints.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Box<dyn Explain + Send + Sync>,
    /// Lines that belong to the error: the end of a program's output, the files that are damaged.
    pub(crate) details: Vec<String>,
}

impl Failure {
    pub(crate) fn code(&self) -> Code {
        self.error.code()
    }

    pub(crate) fn exit_status(&self) -> u8 {
        self.error.code().exit_status
    }

    /// What can be done, each thing once.
    pub(crate) fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for hint in self.error.hints() {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    /// One failure for those of several clusters; none if there was none. Each is in the details, in full.
    pub(crate) fn of_clusters(
        failures: &[(String, Failure)],
        total: usize,
        done: &'static str,
    ) -> Result<(), Self> {
        let Some(code) = failures.first().map(|(_, first)| first.code()) else { return Ok(()) };
        let mut details = Vec::new();
        for (name, failure) in failures {
            details.push(format!("{name}: {}", failure.chain().join(": ")));
            details.extend(failure.details.iter().map(|detail| format!("    {detail}")));
        }
        let hints = failures.iter().flat_map(|(_, failure)| failure.hints()).collect();
        let error = Several { failed: failures.len(), total, done, code, hints };
        Err(Self { error: Box::new(error), details })
    }

    pub(crate) fn chain(&self) -> Vec<String> {
        Self::chain_of(&*self.error)
    }

    /// An error and what caused it, outermost first.
    pub(crate) fn chain_of<E: Error + ?Sized>(error: &E) -> Vec<String> {
        let mut chain = vec![error.to_string()];
        let mut source = error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // A transparent error repeats what is below it.
            if chain.last() != Some(&text) {
                chain.push(text);
            }
            source = error.source();
        }
        chain
    }
}

/// Some of several clusters could not be changed. The code is that of the first.
#[derive(Debug, thiserror::Error)]
#[error("{failed} of {total} clusters could not be {done}")]
struct Several {
    failed: usize,
    total: usize,
    done: &'static str,
    code: Code,
    hints: Vec<String>,
}

impl Explain for Several {
    fn code(&self) -> Code {
        self.code
    }

    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }
}

impl From<flotilla_bundle::BundleError> for Failure {
    fn from(error: flotilla_bundle::BundleError) -> Self {
        let details = error.details().to_vec();
        Self { error: Box::new(error), details }
    }
}

impl From<flotilla_engine::EngineError> for Failure {
    fn from(error: flotilla_engine::EngineError) -> Self {
        let details = error.details();
        Self { error: Box::new(error), details }
    }
}

impl From<crate::commands::FileError> for Failure {
    fn from(error: crate::commands::FileError) -> Self {
        let details = error.details();
        Self { error: Box::new(error), details }
    }
}

impl From<crate::commands::EtcdError> for Failure {
    fn from(error: crate::commands::EtcdError) -> Self {
        Self { error: Box::new(error), details: Vec::new() }
    }
}

impl From<flotilla_spec::error::SpecError> for Failure {
    fn from(error: flotilla_spec::error::SpecError) -> Self {
        flotilla_engine::EngineError::Spec(vec![error]).into()
    }
}
