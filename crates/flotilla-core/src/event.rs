//! The event stream: everything a user or a script may be told while a command works.

use std::time::Duration;

use serde::Serialize;

/// Something that happened. Readers: the progress bars, `-o json`, the dashboard.
///
/// ```text
/// Plan ─▶ ( StepStarted ─▶ StepProgress* ─▶ StepDone )*      Note and Warning at any time
/// ```
///
/// Steps may overlap; each is known by its name. A step that fails has no `StepDone`: the command's error says why.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The steps to come.
    Plan {
        steps: Vec<String>,
        /// How long they take by the clock: steps that run in parallel count once.
        expected: Option<Duration>,
        /// How long they would take one after the other: what a step's own time is a share of.
        work: Option<Duration>,
    },
    StepStarted {
        step: String,
        title: String,
        expected: Option<Duration>,
    },
    StepProgress {
        step: String,
        done: u64,
        total: Option<u64>,
        unit: Unit,
        detail: String,
    },
    StepDone {
        step: String,
        took: Duration,
        outcome: Outcome,
    },
    Note {
        text: String,
    },
    Warning {
        text: String,
    },
}

/// What a step's progress counts.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Bytes,
    Packages,
    Images,
}

/// Bytes as people read them: `1.2 GB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes >= 10 * unit => {
            format!("{} {name}", bytes.saturating_add(unit / 2) / unit)
        }
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} bytes"),
    }
}

/// How a step ended well.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done,
    /// It had been done before; nothing was changed.
    Kept,
}

/// Takes events. Called from any thread; must not block for long.
pub trait Reporter: Send + Sync {
    fn report(&self, event: Event);
}

/// Every event, in order: the reporter of tests.
impl Reporter for std::sync::Mutex<Vec<Event>> {
    fn report(&self, event: Event) {
        self.lock().expect("a reporter does not panic while it holds the lock").push(event);
    }
}

/// Times one step and tells of its beginning and end.
#[derive(Clone)]
pub struct Step<'a> {
    reporter: &'a dyn Reporter,
    name: String,
    started: std::time::Instant,
}

impl std::fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Step<'a> {
    pub fn start(
        reporter: &'a dyn Reporter,
        name: impl Into<String>,
        title: impl Into<String>,
        expected: Option<Duration>,
    ) -> Self {
        let name = name.into();
        reporter.report(Event::StepStarted { step: name.clone(), title: title.into(), expected });
        Self { reporter, name, started: std::time::Instant::now() }
    }

    pub fn progress(&self, done: u64, total: Option<u64>, unit: Unit, detail: impl Into<String>) {
        let detail = detail.into();
        self.reporter.report(Event::StepProgress { step: self.name.clone(), done, total, unit, detail });
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.reporter.report(Event::Warning { text: text.into() });
    }

    pub fn done(self, outcome: Outcome) {
        self.reporter.report(Event::StepDone { step: self.name, took: self.started.elapsed(), outcome });
    }
}
