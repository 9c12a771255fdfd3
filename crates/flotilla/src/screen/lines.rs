//! Progress as plain lines, for log files and pipes.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use flotilla_engine::event::Outcome;
use flotilla_engine::{Event, Reporter};

use super::pace::{Pace, about, count_of, duration};
use super::{WARNING, write_to};

/// How often a step that takes long says where it is.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pace: Pace,
    /// Each running step's title and when it last said something.
    running: HashMap<String, (String, Instant)>,
}

impl Reporter for Lines {
    fn report(&self, event: Event) {
        let mut state = self.0.lock().expect("no line is written while the lock is held by a panic");
        state.pace.take(&event);
        if let Some(text) = state.render(&event) {
            write_to(anstream::stderr(), &text);
        }
    }
}

impl State {
    fn render(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Plan { steps, expected } => {
                let time = expected.map(|time| format!(", {}", about(time))).unwrap_or_default();
                Some(format!("{}{time}", count_of(steps.len())))
            }
            Event::StepStarted { step, title, .. } => {
                self.running.insert(step.clone(), (title.clone(), Instant::now()));
                Some(format!("{}{title}", self.position(step)))
            }
            Event::StepProgress { step, done, total, unit, detail } => {
                let (title, last) = self.running.get_mut(step)?;
                if last.elapsed() < SIGN_OF_LIFE {
                    return None;
                }
                *last = Instant::now();
                let title = title.clone();
                let count = super::bars::count(*done, *total, *unit);
                let left =
                    self.pace.remaining().map(|time| format!(", {} left", about(time))).unwrap_or_default();
                let detail = if detail.is_empty() { String::new() } else { format!(" {detail}") };
                Some(format!("{}{title}: {count}{detail}{left}", self.position(step)))
            }
            Event::StepDone { step, took, outcome } => {
                let (title, _) = self.running.remove(step)?;
                let end = match outcome {
                    Outcome::Done => format!("done in {}", duration(*took)),
                    Outcome::Kept => "nothing to do".into(),
                };
                Some(format!("{}{title}: {end}", self.position(step)))
            }
            Event::Note { text } => Some(text.clone()),
            Event::Warning { text } => Some(format!("{WARNING}warning{WARNING:#}: {text}")),
        }
    }

    fn position(&self, step: &str) -> String {
        self.pace.position(step).map(|(n, of)| format!("[{n}/{of}] ")).unwrap_or_default()
    }
}
