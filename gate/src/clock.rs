//! How much time a stage of tests has.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Less than this is no time to run anything in.
const LEAST: Duration = Duration::from_secs(1);

/// Limits of a stage of tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For all its binaries together, each once.
    pub(crate) all: Duration,
    /// For one binary, so that one that hangs leaves time for the others.
    pub(crate) binary: Duration,
    /// For all tests together that run again alone.
    pub(crate) again: Duration,
    /// For one of them.
    pub(crate) alone: Duration,
}

/// What is left of a stage's time.
#[derive(Debug)]
pub(crate) struct Clock {
    limits: Limits,
    all: Cell<Duration>,
    again: Cell<Duration>,
    /// When the run has to report, however much the stage has left.
    ends: Option<Instant>,
}

impl Clock {
    pub(crate) fn new(limits: Limits, ends: Option<Instant>) -> Self {
        Self { limits, all: Cell::new(limits.all), again: Cell::new(limits.again), ends }
    }

    /// How long the next binary may take; nothing if there is no time for one.
    pub(crate) fn for_binary(&self) -> Option<Duration> {
        self.within(self.limits.binary.min(self.all.get()))
    }

    /// How long the next test that runs alone may take; nothing if there is no time for one.
    pub(crate) fn for_test_alone(&self) -> Option<Duration> {
        self.within(self.limits.alone.min(self.again.get()))
    }

    pub(crate) fn binary_took(&self, time: Duration) {
        self.all.set(self.all.get().saturating_sub(time));
    }

    pub(crate) fn test_alone_took(&self, time: Duration) {
        self.again.set(self.again.get().saturating_sub(time));
    }

    fn within(&self, limit: Duration) -> Option<Duration> {
        let left = self.ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        Some(left.map_or(limit, |left| limit.min(left))).filter(|limit| *limit >= LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        all: Duration::from_secs(10),
        binary: Duration::from_secs(6),
        again: Duration::from_secs(5),
        alone: Duration::from_secs(3),
    };

    #[test]
    fn a_binary_that_hangs_leaves_time_for_others() {
        let clock = Clock::new(LIMITS, None);
        assert_eq!(clock.for_binary(), Some(LIMITS.binary));
        clock.binary_took(LIMITS.binary);
        assert_eq!(clock.for_binary(), Some(Duration::from_secs(4)));
        clock.binary_took(Duration::from_secs(4));
        assert_eq!(clock.for_binary(), None);
        assert_eq!(clock.for_test_alone(), Some(LIMITS.alone), "this time is counted for itself");
    }

    #[test]
    fn tests_that_run_again_have_a_limit_together() {
        let clock = Clock::new(LIMITS, None);
        clock.test_alone_took(LIMITS.alone);
        assert_eq!(clock.for_test_alone(), Some(Duration::from_secs(2)));
        clock.test_alone_took(Duration::from_secs(2));
        assert_eq!(clock.for_test_alone(), None);
    }

    #[test]
    fn nothing_begins_when_the_run_has_to_report() {
        let clock = Clock::new(LIMITS, Some(Instant::now()));
        assert_eq!((clock.for_binary(), clock.for_test_alone()), (None, None));
    }
}
