//! Waiting that ends: with the time limit, or when the user has had enough.

use std::sync::Arc;
use std::time::Duration;

use flotilla_core::BootstrapError;
use tokio::time::{Instant, sleep};

/// Asked between two looks, whether to go on at all.
pub(crate) type Cancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// Pauses grow with the time that was already waited, up to this: who has waited for a minute need not look every 50 ms,
/// and every look costs the API server some of the processor that all others are waiting for.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A pause is at most this part of the time that was already waited, unless the caller's is longer.
const PART: u32 = 10;
/// How often a long pause looks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(100);

/// What is left of the time that something may take, by a clock that nobody sets.
pub(crate) struct Patience {
    what: String,
    limit: Duration,
    since: Instant,
    /// None for a limit beyond what a clock can count.
    until: Option<Instant>,
    cancelled: Cancelled,
}

impl Patience {
    pub(crate) fn new(what: impl Into<String>, limit: Duration, cancelled: &Cancelled) -> Self {
        let since = Instant::now();
        let until = since.checked_add(limit);
        Self { what: what.into(), limit, since, until, cancelled: Arc::clone(cancelled) }
    }

    /// Whether to go on at all; if not, what was `seen` last goes into the error.
    pub(crate) fn check(&self, seen: &[String]) -> Result<(), BootstrapError> {
        if (self.cancelled)() {
            return Err(BootstrapError::Interrupted);
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let (what, limit, seen) = (self.what.clone(), self.limit, seen.to_vec());
            return Err(BootstrapError::TimedOut { what, limit, seen });
        }
        Ok(())
    }

    /// Waits before the next look, if there is to be one: at first for `shortest`, later for longer.
    pub(crate) async fn pause(&self, shortest: Duration, seen: &[String]) -> Result<(), BootstrapError> {
        self.check(seen)?;
        let grown = (self.since.elapsed() / PART).min(LONGEST_PAUSE);
        let end = Instant::now() + shortest.max(grown);
        let end = self.until.map_or(end, |until| until.min(end));
        while Instant::now() < end {
            sleep(SLICE.min(end - Instant::now())).await;
            if (self.cancelled)() {
                return Err(BootstrapError::Interrupted);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    fn never() -> Cancelled {
        Arc::new(|| false)
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_limit_and_tells_what_was_seen_last() {
        let start = Instant::now();
        let patience = Patience::new("peace", Duration::from_secs(1), &never());
        let error = loop {
            if let Err(error) = patience.pause(TICK, &["a quarrel".to_owned()]).await {
                break error;
            }
        };
        assert_eq!(error.to_string(), "peace did not happen within 1 s");
        assert!(matches!(error, BootstrapError::TimedOut { seen, .. } if seen == ["a quarrel"]));
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_it_is_cancelled() {
        let cancelled: Cancelled = Arc::new(|| true);
        let patience = Patience::new("peace", Duration::from_secs(1), &cancelled);
        assert!(matches!(patience.pause(TICK, &[]).await, Err(BootstrapError::Interrupted)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_for_long_looks_less_often() {
        let (start, patience) = (Instant::now(), Patience::new("peace", Duration::MAX, &never()));
        let mut looks = 0;
        while start.elapsed() < Duration::from_mins(1) {
            patience.pause(TICK, &[]).await.unwrap();
            looks += 1;
        }
        assert!((60..120).contains(&looks), "{looks} looks, every 20 ms they would be 3000");
        let begun = Instant::now();
        patience.pause(TICK, &[]).await.unwrap();
        assert_eq!(begun.elapsed(), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_ends_soon_after_it_is_cancelled() {
        let start = Instant::now();
        let cancelled: Cancelled = Arc::new(move || start.elapsed() >= Duration::from_secs(2));
        let patience = Patience::new("peace", Duration::MAX, &cancelled);
        let ended = patience.pause(Duration::from_mins(1), &[]).await;
        assert!(matches!(ended, Err(BootstrapError::Interrupted)));
        assert!(start.elapsed() <= Duration::from_secs(2) + SLICE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_may_be_endless() {
        let patience = Patience::new("peace", Duration::MAX, &never());
        assert!(patience.pause(TICK, &[]).await.is_ok());
    }
}
