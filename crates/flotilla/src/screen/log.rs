//! What a command says, for its log file: as without a terminal, each line with its time.

use std::sync::{Mutex, PoisonError};

use flotilla_core::Event;
use jiff::Timestamp;

use super::lines::State;

#[derive(Debug, Default)]
pub(super) struct Log(Mutex<(State, String)>);

impl Log {
    pub(super) fn event(&self, event: &Event) {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner).0.take(event);
        if let Some(line) = line {
            self.text(&line);
        }
    }

    pub(super) fn text(&self, text: &str) {
        let line = format!("{} {}\n", Timestamp::now(), anstream::adapter::strip_str(text));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push_str(&line);
    }

    pub(super) fn all(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}
