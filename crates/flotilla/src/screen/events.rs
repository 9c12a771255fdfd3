//! Progress for scripts: one `CloudEvent` a line, in the shape that minikube's have.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flotilla_engine::{Event, Reporter};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::pace::Pace;
use super::write_to;
use crate::failure::Failure;

/// Scripts look for minikube's names; events that minikube does not have are in our own name.
const MINIKUBE: &str = "io.k8s.sigs.minikube.";
const FLOTILLA: &str = "dev.flotilla.";
/// Scripts want to know that it moves, not every package.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct CloudEvents {
    count: AtomicU64,
    state: Mutex<(Pace, HashMap<String, Instant>)>,
}

impl CloudEvents {
    /// The command's answer: the last event of a command that went well.
    pub(crate) fn result(&self, value: &impl Serialize) {
        let mut data = Map::new();
        flatten(String::new(), json!(value), &mut data);
        self.write(FLOTILLA, "result", &Value::Object(data));
    }

    pub(crate) fn failure(&self, failure: &Failure, hints: &[String]) {
        let mut message = failure.chain().join(": ");
        if !failure.details.is_empty() {
            message.push('\n');
            message.push_str(&failure.details.join("\n"));
        }
        let data = json!({
            "name": failure.code().name,
            "exitcode": failure.exit_status().to_string(),
            "message": message,
            "advice": hints.join("\n"),
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
        write_to(anstream::stdout(), &event.to_string());
    }
}

/// Whoever reads minikube's events takes all data for strings: `{"sizes": {"bin": 7}}` becomes `{"sizes.bin": "7"}`.
fn flatten(name: String, value: Value, into: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(if name.is_empty() { field } else { format!("{name}.{field}") }, value, into);
            }
        }
        Value::String(_) => drop(into.insert(name, value)),
        other => drop(into.insert(name, Value::String(other.to_string()))),
    }
}

impl Reporter for CloudEvents {
    fn report(&self, event: Event) {
        let mut state = self.state.lock().expect("no event is written while the lock is held by a panic");
        let (pace, last) = &mut *state;
        pace.take(&event);
        match event {
            Event::Plan { steps, expected } => {
                let seconds = expected.map(|time| time.as_secs().to_string()).unwrap_or_default();
                let data = json!({"totalsteps": steps.len().to_string(), "expectedseconds": seconds});
                self.write(FLOTILLA, "plan", &data);
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
                    "done": done.to_string(),
                    "total": total.map(|total| total.to_string()).unwrap_or_default(),
                    "unit": unit,
                    "message": detail,
                    "progress": format!("{:.3}", pace.fraction()),
                });
                self.write(FLOTILLA, "step.progress", &data);
            }
            Event::StepDone { step, took, outcome } => {
                let seconds = format!("{:.1}", took.as_secs_f64());
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
