//! Progress for scripts: one `CloudEvent` a line. docs/reference/json.md describes them.
//!
//! Events that minikube has are in its name and shape. All data are strings, those of our own events too: scripts read every
//! line into the same type.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flotilla_core::{Code, Event, Reporter};
use serde::Serialize;
use serde_json::{Map, Value, json};

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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pace: Pace,
    /// When each step last reported its progress.
    progress: HashMap<String, Instant>,
    numbers: Numbers,
}

/// Numbers of steps, counted as steps begin: the order in a plan is another one, and a command may have several plans.
#[derive(Debug, Default)]
struct Numbers {
    begun: usize,
    total: usize,
}

impl Numbers {
    fn plan(&mut self, steps: usize) {
        self.total = self.begun + steps;
    }

    /// The number of the step that begins now, and of how many.
    fn next(&mut self) -> (usize, usize) {
        self.begun += 1;
        self.total = self.total.max(self.begun);
        (self.begun, self.total)
    }
}

impl CloudEvents {
    pub(crate) fn to(console: &Console) -> Self {
        Self { console: console.clone(), count: AtomicU64::new(0), state: Mutex::default() }
    }

    /// The command's answer: the last event of a command that went well.
    pub(crate) fn result(&self, value: &impl Serialize) {
        self.write(FLOTILLA, "result", &json!(value));
    }

    pub(crate) fn failure(&self, failure: &OpError, details: &[String], hints: &[String]) {
        let mut message = failure.chain().join(": ");
        if !details.is_empty() {
            message.push('\n');
            message.push_str(&details.join("\n"));
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
            // Keys of minikube's errors that are about minikube's own pages.
            "issues": "",
            "url": "",
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
            "data": in_strings(data),
        });
        // A reader that went away is a quiet end, not an error.
        let _ = self.console.out(&event.to_string());
    }
}

impl Reporter for CloudEvents {
    fn report(&self, event: Event) {
        let mut state = self.state.lock().expect("no event is written while the lock is held by a panic");
        let State { pace, progress, numbers } = &mut *state;
        pace.take(&event);
        match event {
            Event::Plan { steps, expected, .. } => {
                let seconds = expected.map(|time| time.as_secs());
                numbers.plan(steps.len());
                self.write(FLOTILLA, "plan", &json!({"steps": steps, "expectedSeconds": seconds}));
            }
            Event::StepStarted { step, title, .. } => {
                let (current, total) = numbers.next();
                let data = json!({
                    "currentstep": current.to_string(),
                    "totalsteps": total.to_string(),
                    "name": step,
                    "message": title,
                });
                self.write(MINIKUBE, "step", &data);
            }
            Event::StepProgress { step, done, total, unit, detail } => {
                if progress.get(&step).is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
                    return;
                }
                progress.insert(step.clone(), Instant::now());
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

/// The same data in strings: what is not known is left out, lists and objects are JSON in a string.
fn in_strings(data: &Value) -> Map<String, Value> {
    let fields = data.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let in_string = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.map(|(key, value)| (key.clone(), in_string(value).into())).collect()
}

/// A number as people write it: no digits that nothing is known of.
fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_data_are_strings() {
        let data = json!({
            "name": "network", "seconds": 0.1, "changed": true, "steps": ["a", "b"], "sizes": {"bin": 23}, "total": null,
        });
        let strings = in_strings(&data);
        insta::assert_snapshot!(Value::Object(strings), @r#"{"changed":"true","name":"network","seconds":"0.1","sizes":"{\"bin\":23}","steps":"[\"a\",\"b\"]"}"#);
    }

    #[test]
    fn steps_are_numbered_as_they_begin_through_all_plans() {
        let mut numbers = Numbers::default();
        numbers.plan(2);
        assert_eq!([numbers.next(), numbers.next(), numbers.next()], [(1, 2), (2, 2), (3, 3)]);
        numbers.plan(1);
        assert_eq!(numbers.next(), (4, 4));
    }
}
