//! How far a command has come, and how long it will still take.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flotilla_core::Event;
use flotilla_core::event::Outcome;

/// Weighs steps by how long they are expected to take and corrects that by how long they do.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the work began; waiting for others is none.
    started: Option<Instant>,
    steps: Vec<String>,
    /// How long it takes by the clock.
    expected: Duration,
    /// How long all steps would take one after the other.
    work: Duration,
    finished: Duration,
    running: BTreeMap<String, Running>,
    /// How many steps of the plan have ended.
    ended: usize,
}

#[derive(Debug)]
struct Running {
    since: Instant,
    expected: Duration,
    /// The share that is done, of steps that say so.
    told: Option<f64>,
}

/// A step that does not say how far it is counts as far as its time is over, but not as done.
const NEARLY: f64 = 0.95;

impl Running {
    fn fraction(&self) -> f64 {
        let by_time = || self.since.elapsed().as_secs_f64() / self.expected.as_secs_f64();
        match self.told {
            Some(told) => told,
            None if self.expected.is_zero() => 0.0,
            None => by_time().min(NEARLY),
        }
    }
}

impl Pace {
    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::Plan { steps, expected, work } => {
                self.steps.clone_from(steps);
                self.expected = expected.unwrap_or_default();
                self.work = work.unwrap_or_default();
                (self.finished, self.ended) = (Duration::ZERO, 0);
                self.started = Some(Instant::now());
            }
            Event::StepStarted { step, expected, .. } => {
                let (since, expected) = (Instant::now(), expected.unwrap_or_default());
                self.started.get_or_insert(since);
                self.running.insert(step.clone(), Running { since, expected, told: None });
            }
            Event::StepProgress { step, done, total: Some(total), .. } => {
                if let Some(running) = self.running.get_mut(step) {
                    running.told = Some(share(*done, *total));
                }
            }
            Event::StepDone { step, outcome, .. } => {
                self.ended += usize::from(self.steps.contains(step));
                if let (Some(running), Outcome::Done) = (self.running.remove(step), outcome) {
                    self.finished += running.expected;
                }
            }
            _ => {}
        }
    }

    /// `3/12` where three of the plan's steps have ended, nothing for a step of no plan. Steps end in another order than the
    /// plan has them.
    pub(crate) fn ended(&self, step: &str) -> Option<(usize, usize)> {
        self.steps.iter().any(|name| name == step).then_some((self.ended, self.steps.len()))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.map(|started| started.elapsed()).unwrap_or_default()
    }

    /// The share of the work that is done, by time.
    pub(crate) fn fraction(&self) -> f64 {
        if self.work.is_zero() {
            if self.running.is_empty() && self.started.is_some() {
                return 1.0;
            }
            return self.running.values().map(Running::fraction).fold(0.0, f64::max);
        }
        let running: f64 =
            self.running.values().map(|step| step.expected.as_secs_f64() * step.fraction()).sum();
        ((self.finished.as_secs_f64() + running) / self.work.as_secs_f64()).min(1.0)
    }

    /// At first what was expected; the further it gets, the more what the pace so far makes likely. Nothing while
    /// nothing is known, and when all is done.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let fraction = self.fraction();
        let elapsed = self.elapsed().as_secs_f64();
        let by_pace = (fraction > 0.0).then(|| elapsed / fraction - elapsed);
        let seconds = if self.expected.is_zero() {
            // The first second says nothing about the others.
            by_pace.filter(|_| elapsed >= 1.0)?
        } else {
            let by_plan = self.expected.as_secs_f64() * (1.0 - fraction);
            by_plan * (1.0 - fraction) + by_pace.unwrap_or(by_plan) * fraction
        };
        Duration::try_from_secs_f64(seconds).ok().filter(|_| fraction < 1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bar has no use for more than a few digits")]
fn share(done: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { done as f64 / total as f64 }
}

/// `9 min 55 s`, `39 s`, `0.4 s`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// `1 step`, `12 steps`.
pub(crate) fn count_of(steps: usize) -> String {
    if steps == 1 { "1 step".into() } else { format!("{steps} steps") }
}

/// `about 15 min`, for what nobody knows to the second.
pub(crate) fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("about {} s", seconds.max(1)),
        seconds => format!("about {} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_core::Unit;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn steps_count_by_their_time_and_kept_ones_not_at_all() {
        let mut pace = Pace::default();
        let start = |step: &str, n| Event::StepStarted {
            step: step.into(),
            title: String::new(),
            expected: Some(seconds(n)),
        };
        let done = |step: &str, outcome| Event::StepDone { step: step.into(), took: Duration::ZERO, outcome };
        let (steps, expected) = (vec!["a".into(), "b".into()], Some(seconds(100)));
        pace.take(&Event::Plan { steps, expected, work: expected });
        pace.take(&start("kept", 900));
        pace.take(&done("kept", Outcome::Kept));
        assert!(pace.fraction() < 0.001);
        pace.take(&start("a", 40));
        pace.take(&done("a", Outcome::Done));
        pace.take(&start("b", 60));
        let (done, total) = (1, Some(2));
        pace.take(&Event::StepProgress {
            step: "b".into(),
            done,
            total,
            unit: Unit::Packages,
            detail: String::new(),
        });
        assert!((pace.fraction() - 0.7).abs() < 0.001);
        assert_eq!(pace.ended("verify"), None);
        assert_eq!(pace.ended("a"), Some((1, 2)));
    }

    #[test]
    fn side_by_side_steps_that_say_nothing_move_with_the_clock() {
        let mut pace = Pace::default();
        let steps = vec!["a".to_owned(), "b".to_owned()];
        let (expected, work) = (Some(seconds(100)), Some(seconds(200)));
        pace.take(&Event::Plan { steps: steps.clone(), expected, work });
        for step in steps {
            pace.take(&Event::StepStarted { step, title: String::new(), expected });
        }
        let ago = |n| Instant::now().checked_sub(seconds(n)).unwrap();
        pace.started = Some(ago(50));
        pace.running.values_mut().for_each(|step| step.since = ago(50));
        assert!((pace.fraction() - 0.5).abs() < 0.01, "{}", pace.fraction());
        let left = pace.remaining().unwrap().as_secs_f64();
        assert!((left - 50.0).abs() < 1.0, "{left}");
        pace.running.values_mut().for_each(|step| step.since = ago(500));
        assert!((pace.fraction() - NEARLY).abs() < 0.001, "late is not done");
    }

    #[test]
    fn the_time_left_is_told_once_something_is_known() {
        let mut pace = Pace::default();
        assert_eq!((pace.elapsed(), pace.remaining()), (Duration::ZERO, None));
        pace.take(&Event::StepStarted { step: "verify".into(), title: String::new(), expected: None });
        assert_eq!(pace.remaining(), None);
        let progress = |done| {
            let (total, unit) = (Some(100), Unit::Bytes);
            Event::StepProgress { step: "verify".into(), done, total, unit, detail: String::new() }
        };
        pace.started = Instant::now().checked_sub(seconds(30));
        pace.take(&progress(25));
        assert_eq!(pace.remaining().unwrap().as_secs(), 90);
        pace.take(&progress(100));
        assert_eq!(pace.remaining(), None);
        assert_eq!(
            Pace { expected: seconds(100), work: seconds(100), ..Pace::default() }.remaining(),
            Some(seconds(100))
        );
    }

    #[test]
    fn times_read_well() {
        assert_eq!(duration(Duration::from_millis(420)), "0.4 s");
        assert_eq!(duration(Duration::from_secs(595)), "9 min 55 s");
        assert_eq!(about(Duration::from_secs(875)), "about 15 min");
        assert_eq!(about(Duration::ZERO), "about 1 s");
        assert_eq!((count_of(1).as_str(), count_of(12).as_str()), ("1 step", "12 steps"));
    }
}
