//! How long to wait before a service is started again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// A service that ran that long was healthy: its next failure counts as the first.
const HEALTHY: Duration = Duration::from_secs(10);

/// Delays that double with each early exit.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The wait after a life of `lived`.
    pub(crate) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= HEALTHY {
            self.next = FIRST;
        }
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_deaths_double_the_wait_up_to_five_seconds() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..8).map(|_| backoff.after(Duration::from_secs(1)).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn a_long_life_starts_the_count_anew() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.after(Duration::ZERO);
        }
        assert_eq!(backoff.after(HEALTHY), FIRST);
        assert_eq!(backoff.after(Duration::ZERO), FIRST * 2);
    }
}
