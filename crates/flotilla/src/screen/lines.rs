//! Progress as plain lines, for log files and pipes: one for each step, when it has ended.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use flotilla_core::event::Outcome;
use flotilla_core::{Event, Reporter};

use super::pace::{Pace, about, count_of, duration};
use super::{Console, WARNING};

/// How often a step that takes long says where it is.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// A step that is expected to take this long says that it has begun, too.
const LONG: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Lines {
    console: Console,
    progress: Stream,
    state: Mutex<State>,
}

/// Where progress and notes go. Warnings go to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pace: Pace,
    /// Each running step's title and when it last said something.
    running: HashMap<String, (String, Instant)>,
}

impl Lines {
    pub(crate) fn to(console: &Console, progress: Stream) -> Self {
        Self { console: console.clone(), progress, state: Mutex::default() }
    }
}

impl Reporter for Lines {
    fn report(&self, event: Event) {
        let mut state = self.state.lock().expect("no line is written while the lock is held by a panic");
        if let Some(text) = state.take(&event) {
            match (self.progress, &event) {
                (Stream::Error, _) | (_, Event::Warning { .. }) => self.console.err(&text),
                // A reader that went away is a quiet end, not an error.
                (Stream::Output, _) => drop(self.console.out(&text)),
            }
        }
    }
}

impl State {
    /// The line for an event, if it gets one.
    pub(super) fn take(&mut self, event: &Event) -> Option<String> {
        self.pace.take(event);
        self.render(event)
    }

    fn render(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Plan { steps, expected, .. } => {
                let time = expected.map(|time| format!(", {}", about(time))).unwrap_or_default();
                Some(format!("{}{time}", count_of(steps.len())))
            }
            Event::StepStarted { step, title, expected } => {
                self.running.insert(step.clone(), (title.clone(), Instant::now()));
                expected.filter(|time| *time >= LONG).map(|time| format!("{title}: {}", about(time)))
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
                Some(format!("{title}: {count}{detail}{left}"))
            }
            Event::StepDone { step, took, outcome } => {
                let (title, _) = self.running.remove(step)?;
                let end = match outcome {
                    Outcome::Done => format!("done in {}", duration(*took)),
                    Outcome::Kept => "nothing to do".into(),
                };
                let position =
                    self.pace.ended(step).map(|(n, of)| format!("[{n}/{of}] ")).unwrap_or_default();
                Some(format!("{position}{title}: {end}"))
            }
            Event::Note { text } => Some(text.clone()),
            Event::Warning { text } => Some(format!("{WARNING}warning{WARNING:#}: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_one_line_in_the_order_in_which_they_end() {
        let mut state = State::default();
        let (expected, work) = (Some(Duration::from_secs(12)), Some(Duration::from_secs(14)));
        let start = |step: &str, seconds| {
            let expected = Some(Duration::from_secs(seconds));
            Event::StepStarted { step: step.into(), title: format!("making {step}"), expected }
        };
        let done = |step: &str| {
            let (took, outcome) = (Duration::from_secs(2), Outcome::Done);
            Event::StepDone { step: step.into(), took, outcome }
        };
        let events = [
            Event::Plan { steps: ["a", "b", "c"].map(str::to_owned).to_vec(), expected, work },
            start("a", 2),
            start("b", 1),
            start("c", 11),
            done("b"),
            done("a"),
            start("extra", 1),
            done("extra"),
            done("c"),
        ];
        let lines = events.iter().filter_map(|event| state.take(event));
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
        3 steps, about 12 s
        making c: about 11 s
        [1/3] making b: done in 2 s
        [2/3] making a: done in 2 s
        making extra: done in 2 s
        [3/3] making c: done in 2 s
        ");
    }
}
