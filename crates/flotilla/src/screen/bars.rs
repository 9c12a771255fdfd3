//! Progress on a terminal: finished steps above, the running one and the whole below.

use std::sync::Mutex;
use std::time::Duration;

use flotilla_engine::event::Outcome;
use flotilla_engine::{Event, Reporter, Unit};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::WARNING;
use super::pace::{Pace, about, duration};

const WHOLE: &str = "{bar:30.cyan/dim} {percent:>3}%  {msg}";
const STEP: &str = "{spinner:.cyan} {msg}";
/// Fine enough for a bar as wide as any terminal.
const RESOLUTION: u64 = 1000;

#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    step: ProgressBar,
    whole: ProgressBar,
    title: String,
}

impl Bars {
    pub(crate) fn new() -> Self {
        let all = MultiProgress::new();
        let style = |template| ProgressStyle::with_template(template).expect("the template is a constant");
        let step = all.add(ProgressBar::new_spinner().with_style(style(STEP)));
        let whole = all.add(ProgressBar::new(RESOLUTION).with_style(style(WHOLE)));
        let state = State { pace: Pace::default(), step, whole, title: String::new() };
        Self { all, state: Mutex::new(state) }
    }

    /// Takes the bars away; what was printed above them stays.
    pub(crate) fn clear(&self) {
        // Nothing can be done about a terminal that cannot be written to.
        let _ = self.all.clear();
    }

    fn print(&self, line: &str) {
        let _ = self.all.println(line);
    }
}

impl Reporter for Bars {
    fn report(&self, event: Event) {
        let mut state = self.state.lock().expect("no bar is drawn while the lock is held by a panic");
        state.pace.take(&event);
        match event {
            Event::Plan { steps, expected } => {
                let time = expected.map(|time| format!(", {}", about(time))).unwrap_or_default();
                self.print(&format!("{} steps{time}", steps.len()));
            }
            Event::StepStarted { title, .. } => {
                state.step.enable_steady_tick(Duration::from_millis(100));
                state.step.set_message(title.clone());
                state.title = title;
            }
            Event::StepProgress { done, total, unit, detail, .. } => {
                let message = format!("{}: {} {detail}", state.title, count(done, total, unit));
                state.step.set_message(message);
            }
            Event::StepDone { took, outcome, .. } => {
                let end = match outcome {
                    Outcome::Done => duration(took),
                    Outcome::Kept => "kept from before".into(),
                };
                self.print(&format!("✓ {} ({end})", state.title));
            }
            Event::Note { text } => self.print(&text),
            Event::Warning { text } => self.print(&format!("{WARNING}warning{WARNING:#}: {text}")),
        }
        state.draw();
    }
}

impl State {
    fn draw(&self) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of a small number")]
        #[expect(clippy::cast_precision_loss, reason = "a fraction of a small number")]
        self.whole.set_position((self.pace.fraction() * RESOLUTION as f64) as u64);
        let left = self.pace.remaining().map(|time| format!(", {} left", about(time))).unwrap_or_default();
        self.whole.set_message(format!("{}{left}", duration(self.pace.elapsed())));
    }
}

/// `412/1693 packages`, `120 MB`.
pub(crate) fn count(done: u64, total: Option<u64>, unit: Unit) -> String {
    let name = match unit {
        Unit::Bytes => {
            let size = flotilla_bundle::error::size;
            return total.map_or_else(|| size(done), |total| format!("{} of {}", size(done), size(total)));
        }
        Unit::Packages => "packages",
        Unit::Files => "files",
        Unit::Images => "images",
    };
    total.map_or_else(|| format!("{done} {name}"), |total| format!("{done}/{total} {name}"))
}
