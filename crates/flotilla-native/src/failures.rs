//! Removal goes on after a failure, and reports all of them.

use flotilla_core::Changed;

use crate::error::NativeError;

/// What could not be removed.
#[derive(Default)]
pub(crate) struct Failures(Vec<NativeError>);

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn note<T>(&mut self, done: Result<T, NativeError>) -> Option<T> {
        done.map_err(|error| self.0.push(error)).ok()
    }

    /// All of it as one error, if there was any.
    pub(crate) fn or(mut self, changed: Changed) -> Result<Changed, NativeError> {
        match self.0.len() {
            0 => Ok(changed),
            1 => Err(self.0.remove(0)),
            _ => Err(NativeError::Removal { failures: self.0 }),
        }
    }
}
