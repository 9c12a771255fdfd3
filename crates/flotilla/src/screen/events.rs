//! Progress for scripts: one `CloudEvent` a line. docs/reference/json.md describes them.
//!
//! Events that minikube has are in its name and shape: all data are strings. Those of our own have typed data.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flotilla_core::{Code, Event, Reporter};
use serde::Serialize;
use serde_json::{Value, json};

use super::Console;
use super::pace::Pace;
use flotilla_ops::OpError;

/// Scripts look for minikube's names; events that minikube does not have are in our own name.
const MINIKUBE: &str = "io.k8s.sigs.minikube.";
const FLOTILLA: &str = "dev.flotilla.";
/// Scripts want to know that it moves, not every package.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct CloudEvents {
    console: Console,
    count: AtomicU64,
    state: Mutex<(Pace, HashMap<String, Instant>)>,
}

impl CloudEvents {
    pub(crate) fn to(console: &Console) -> Self {
        Self { console: console.clone(), count: AtomicU64::new(0), state: Mutex::default() }
    }

    /// The command's answer: the last event of a command that went well.
    pub(crate) fn result(&self, value: &impl Serialize) {
        self.write(FLOTILLA, "result", &json!(value));
    }

    pub(crate) fn failure(&self, failure: &OpError, hints: &[String]) {
        let mut message = failure.chain().join(": ");
        if !failure.details().is_empty() {
            message.push('\n');
            message.push_str(&failure.details().join("\n"));
        }
        self.error(failure.code(), &message, &hints.join("\n"));
    }

    /// The last event of a command that failed.
    pub(crate) fn error(&self, code: Code, message: &str, advice: &str) {
        let data = json!({
            "name": code.name,
            "exitcode": code.exit_status.to_string(),
            "message": message,
            "advice": advice,
        });
        self.write(MINIKUBE, "error", &data);
    }

    fn write(&self, prefix: &str, kind: &str, data: &Value) {
        let id = format!("{}-{}", std::process::id(), self.count.fetch_add(1, Ordering::Relaxed));
        let event = json!({
            "specversion": "1.0",
            "id": id,
            "source": "https://flotilla.dev/",
            "type": format!("{prefix}{kind}"),
            "datacontenttype": "application/json",
            "time": jiff::Timestamp::now().to_string(),
            "data": data,
        });
        // A reader that went away is a quiet end, not an error.
        let _ = self.console.out(&event.to_string());
    }
}

impl Reporter for CloudEvents {
    fn report(&self, event: Event) {
        let mut state = self.state.lock().expect("no event is written while the lock is held by a panic");
        let (pace, last) = &mut *state;
        pace.take(&event);
        match event {
            Event::Plan { steps, expected, .. } => {
                let seconds = expected.map(|time| time.as_secs());
                self.write(FLOTILLA, "plan", &json!({"steps": steps, "expectedSeconds": seconds}));
            }
            Event::StepStarted { step, title, .. } => {
                let (current, total) = pace.position(&step).unwrap_or((1, 1));
                let data = json!({
                    "currentstep": current.to_string(),
                    "totalsteps": total.to_string(),
                    "name": step,
                    "message": title,
                });
                self.write(MINIKUBE, "step", &data);
            }
            Event::StepProgress { step, done, total, unit, detail } => {
                if last.get(&step).is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
                    return;
                }
                last.insert(step.clone(), Instant::now());
                let data = json!({
                    "name": step,
                    "done": done,
                    "total": total,
                    "unit": unit,
                    "message": detail,
                    "progress": rounded(pace.fraction(), 1000.0),
                });
                self.write(FLOTILLA, "step.progress", &data);
            }
            Event::StepDone { step, took, outcome } => {
                let seconds = rounded(took.as_secs_f64(), 10.0);
                self.write(
                    FLOTILLA,
                    "step.done",
                    &json!({"name": step, "seconds": seconds, "outcome": outcome}),
                );
            }
            Event::Note { text } => self.write(MINIKUBE, "info", &json!({"message": text})),
            Event::Warning { text } => self.write(MINIKUBE, "warning", &json!({"message": text})),
        }
    }
}

/// A number as people write it: no digits that nothing is known of.
fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}
