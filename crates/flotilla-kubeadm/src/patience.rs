//! Waiting that ends: with the time limit, or when the person has had enough.

use std::sync::Arc;
use std::time::Duration;

use flotilla_engine::port::BootstrapError;
use tokio::time::{Instant, sleep};

/// Asked between two looks, whether to go on at all.
pub(crate) type Cancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// What is left of the time that something may take.
pub(crate) struct Patience {
    what: String,
    limit: Duration,
    /// None for a limit beyond what a clock can count.
    until: Option<Instant>,
    cancelled: Cancelled,
}

impl Patience {
    pub(crate) fn new(what: impl Into<String>, limit: Duration, cancelled: &Cancelled) -> Self {
        let until = Instant::now().checked_add(limit);
        Self { what: what.into(), limit, until, cancelled: Arc::clone(cancelled) }
    }

    /// Waits before the next look, if there is to be one; else what was `seen` last goes into the error.
    pub(crate) async fn pause(&self, how_long: Duration, seen: &[String]) -> Result<(), BootstrapError> {
        if (self.cancelled)() {
            return Err(BootstrapError::Interrupted);
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let (what, limit, seen) = (self.what.clone(), self.limit, seen.to_vec());
            return Err(BootstrapError::TimedOut { what, limit, seen });
        }
        sleep(how_long).await;
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
    async fn a_limit_may_be_endless() {
        let patience = Patience::new("peace", Duration::MAX, &never());
        assert!(patience.pause(TICK, &[]).await.is_ok());
    }
}
