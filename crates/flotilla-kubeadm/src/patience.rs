//! Waiting that ends: with success, with the user's time limit, when nothing moves any more, or when the user has had
//! enough. All waits of this crate end here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flotilla_core::{BootstrapError, Machine};
use tokio::time::{Instant, sleep};

/// The limit of commands without `--wait-timeout`.
const LIMIT: Duration = Duration::from_mins(6);
/// How long a request to the API is retried that could not be answered: the virtual IP moves to another control plane and
/// etcd elects a leader within seconds, also on a busy host.
const RETRIES: Duration = Duration::from_secs(30);
/// The same while a cluster starts: its API server may be restarted, or starved of CPU time.
const RETRIES_AT_START: Duration = Duration::from_secs(90);

/// The first pause between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// What takes longer than this is slow: pauses begin to grow.
const SOON: Duration = Duration::from_secs(5);
/// Pauses grow up to this: after a minute, looking every 50 ms only costs the API server CPU time that everybody is
/// waiting for.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A pause is at most this part of the time that was waited beyond [`SOON`], unless the caller's is longer.
const PART: u32 = 10;
/// How often a long pause checks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(100);

/// How long a node may do nothing before it is given up. A slow one is never idle while it starts.
const STALLED: Duration = Duration::from_secs(90);
/// How often to look at what a node does.
const LOOK: Duration = Duration::from_secs(5);
/// A node that uses less than this part of a CPU is idle. A worker with nothing to do uses more, and so does one that shares two
/// cores with a hundred busy processes.
const IDLE: f64 = 0.005;

/// What ends the waits of a command before they succeed.
#[derive(Clone)]
pub(crate) struct Cancelled {
    /// Whether the user wants an end.
    asked: Arc<dyn Fn() -> bool + Send + Sync>,
    /// What `--wait-timeout` says, for commands that have it.
    limit: Duration,
    retries: Duration,
    flag: Option<&'static str>,
}

impl Cancelled {
    pub(crate) fn new(asked: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self { asked, limit: LIMIT, retries: RETRIES, flag: None }
    }

    /// The same for a command whose user has set a limit.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        let asked = Arc::clone(&self.asked);
        Self { asked, limit, retries: RETRIES_AT_START.min(limit), flag: Some("--wait-timeout") }
    }

    /// The limit of each wait, and of each program that waits in a node.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    fn check(&self) -> Result<(), BootstrapError> {
        if (self.asked)() { Err(BootstrapError::Interrupted) } else { Ok(()) }
    }
}

/// What is left of the time that something may take, by a clock that nobody sets.
pub(crate) struct Patience {
    what: String,
    limit: Duration,
    flag: Option<&'static str>,
    since: Instant,
    /// None for a limit beyond what a clock can count.
    until: Option<Instant>,
    cancelled: Cancelled,
}

impl Patience {
    /// As long as the user wants to wait.
    pub(crate) fn new(what: impl Into<String>, cancelled: &Cancelled) -> Self {
        Self { flag: cancelled.flag, ..Self::within(what, cancelled.limit, cancelled) }
    }

    /// As long as a request to the API is retried.
    pub(crate) fn for_request(what: impl Into<String>, cancelled: &Cancelled) -> Self {
        Self::within(what, cancelled.retries, cancelled)
    }

    /// With a limit that no user sets.
    pub(crate) fn within(what: impl Into<String>, limit: Duration, cancelled: &Cancelled) -> Self {
        let since = Instant::now();
        let until = since.checked_add(limit);
        Self { what: what.into(), limit, flag: None, since, until, cancelled: cancelled.clone() }
    }

    /// The same limit for another thing that is waited for: its first looks follow each other quickly.
    pub(crate) fn anew(&self) -> Self {
        let (what, cancelled) = (self.what.clone(), self.cancelled.clone());
        Self { what, cancelled, since: Instant::now(), ..*self }
    }

    /// Whether to go on at all; if not, what was `seen` last goes into the error.
    pub(crate) fn check(&self, seen: &[String]) -> Result<(), BootstrapError> {
        self.cancelled.check()?;
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let (what, limit, flag, seen) = (self.what.clone(), self.limit, self.flag, seen.to_vec());
            return Err(BootstrapError::TimedOut { what, limit, flag, seen });
        }
        Ok(())
    }

    /// Waits before the next look, if there is to be one: a moment at first, later for longer.
    pub(crate) async fn pause(&self, seen: &[String]) -> Result<(), BootstrapError> {
        self.pause_for(SHORTEST_PAUSE, seen).await
    }

    /// The same for a look that costs more: at first for `shortest`.
    pub(crate) async fn pause_for(&self, shortest: Duration, seen: &[String]) -> Result<(), BootstrapError> {
        self.check(seen)?;
        let grown = (self.since.elapsed().saturating_sub(SOON) / PART).min(LONGEST_PAUSE);
        let end = Instant::now() + shortest.max(grown);
        let end = self.until.map_or(end, |until| until.min(end));
        while Instant::now() < end {
            sleep(SLICE.min(end - Instant::now())).await;
            self.cancelled.check()?;
        }
        Ok(())
    }

    /// The same while a node works: an error if it has done nothing for long.
    pub(crate) async fn pause_while_busy(
        &self,
        work: &Work<'_>,
        seen: &[String],
    ) -> Result<(), BootstrapError> {
        if let Some(limit) = work.has_stalled().await {
            let (what, node) = (self.what.clone(), work.machine.name().to_string());
            return Err(BootstrapError::Stalled { what, node, limit, seen: seen.to_vec() });
        }
        self.pause(seen).await
    }
}

/// Whether a node does anything, by the CPU time that it uses.
pub(crate) struct Work<'a> {
    machine: &'a dyn Machine,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// When the node was looked at last, and the CPU time that it had used.
    at: Instant,
    used: Option<Duration>,
    last_busy: Instant,
}

impl<'a> Work<'a> {
    pub(crate) fn of(machine: &'a dyn Machine) -> Self {
        let now = Instant::now();
        Self { machine, seen: Mutex::new(Seen { at: now, used: None, last_busy: now }) }
    }

    /// How long the node has been idle, if that is too long. Looks now and then, however often it is called.
    async fn has_stalled(&self) -> Option<Duration> {
        let before = self.seen();
        if before.at.elapsed() < LOOK {
            return None;
        }
        let (used, now) = (cpu_time(self.machine).await, Instant::now());
        let is_busy = match (before.used, used) {
            (Some(before_used), Some(used)) => {
                let part = used.saturating_sub(before_used).as_secs_f64() / (now - before.at).as_secs_f64();
                part > IDLE
            }
            // The first look, or nothing can be seen: then only the user's limit ends the wait.
            _ => true,
        };
        let last_busy = if is_busy { now } else { before.last_busy };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen { at: now, used, last_busy };
        let idle = now - last_busy;
        (idle >= STALLED).then_some(idle)
    }

    fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const V1_CPU_TIME: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage";
const V2_CPU_TIME: &str = "/sys/fs/cgroup/cpu.stat";

/// The CPU time of all processes in a node.
async fn cpu_time(machine: &dyn Machine) -> Option<Duration> {
    let text = async |path| String::from_utf8(machine.guest().read(path).await.ok()??).ok();
    if let Some(nanoseconds) = text(V1_CPU_TIME).await {
        return Some(Duration::from_nanos(nanoseconds.trim().parse().ok()?));
    }
    let stat = text(V2_CPU_TIME).await?;
    let microseconds = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(microseconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake::FakeMachine;

    const TICK: Duration = Duration::from_millis(20);

    fn never() -> Cancelled {
        Cancelled::new(Arc::new(|| false))
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_limit_and_tells_what_was_seen_last() {
        let start = Instant::now();
        let patience = Patience::within("peace", Duration::from_secs(1), &never());
        let error = loop {
            if let Err(error) = patience.pause_for(TICK, &["a quarrel".to_owned()]).await {
                break error;
            }
        };
        assert_eq!(error.to_string(), "timed out after 1 s waiting for peace");
        assert!(matches!(error, BootstrapError::TimedOut { seen, .. } if seen == ["a quarrel"]));
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_it_is_cancelled() {
        let cancelled = Cancelled::new(Arc::new(|| true));
        let patience = Patience::within("peace", Duration::from_secs(1), &cancelled);
        assert!(matches!(patience.pause_for(TICK, &[]).await, Err(BootstrapError::Interrupted)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_for_long_looks_less_often() {
        let (start, patience) = (Instant::now(), Patience::within("peace", Duration::MAX, &never()));
        let mut looks = 0;
        while start.elapsed() < Duration::from_mins(1) {
            patience.pause_for(TICK, &[]).await.unwrap();
            looks += 1;
        }
        assert!((300..400).contains(&looks), "{looks} looks, every 20 ms they would be 3000");
        let begun = Instant::now();
        patience.pause_for(TICK, &[]).await.unwrap();
        assert_eq!(begun.elapsed(), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_ends_soon_after_it_is_cancelled() {
        let start = Instant::now();
        let cancelled = Cancelled::new(Arc::new(move || start.elapsed() >= Duration::from_secs(2)));
        let patience = Patience::within("peace", Duration::MAX, &cancelled);
        let ended = patience.pause_for(Duration::from_mins(1), &[]).await;
        assert!(matches!(ended, Err(BootstrapError::Interrupted)));
        assert!(start.elapsed() <= Duration::from_secs(2) + SLICE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_may_be_endless() {
        let patience = Patience::within("peace", Duration::MAX, &never());
        assert!(patience.pause_for(TICK, &[]).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_users_limit_is_named_by_its_flag_and_no_other_limit_is() {
        let limits = never().within(Duration::from_secs(7));
        let flag = async |patience: Patience| {
            let error = loop {
                if let Err(error) = patience.pause(&[]).await {
                    break error;
                }
            };
            match error {
                BootstrapError::TimedOut { flag, limit, .. } => (flag, limit.as_secs()),
                other => panic!("{other}"),
            }
        };
        assert_eq!(flag(Patience::new("peace", &limits)).await, (Some("--wait-timeout"), 7));
        assert_eq!(flag(Patience::within("peace", Duration::from_secs(3), &limits)).await, (None, 3));
        assert_eq!(flag(Patience::for_request("peace", &limits)).await, (None, 7));
        assert_eq!(flag(Patience::new("peace", &never())).await, (None, LIMIT.as_secs()));
    }

    /// Waits for a node that uses this much CPU time each second, until it is given up.
    async fn given_up(milliseconds_a_second: u64, limit: Duration) -> (BootstrapError, Duration) {
        let (start, machine) = (Instant::now(), FakeMachine::new(&[], &[]));
        let (limits, work) = (never().within(limit), Work::of(&machine));
        let patience = Patience::new("peace", &limits);
        loop {
            let used = start.elapsed().as_nanos() / 1000 * u128::from(milliseconds_a_second);
            machine.put_file(V1_CPU_TIME, format!("{used}\n").as_bytes());
            if let Err(error) = patience.pause_while_busy(&work, &[]).await {
                return (error, start.elapsed());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_node_has_all_the_users_time_and_an_idle_one_is_given_up_sooner() {
        let limit = Duration::from_hours(1);
        let (error, after) = given_up(10, limit).await;
        assert!(matches!(error, BootstrapError::TimedOut { .. }) && after >= limit, "{error} {after:?}");
        let (error, after) = given_up(2, limit).await;
        assert!(matches!(error, BootstrapError::Stalled { .. }), "{error}");
        assert!(after < 2 * STALLED, "{after:?}");
        assert_eq!(error.to_string(), "gave up waiting for peace: node demo has been idle for 90 s");
    }

    #[tokio::test]
    async fn the_cpu_time_of_a_node_is_read_from_either_version_of_control_groups() {
        let v2: &[u8] = b"usage_usec 1500000\nuser_usec 7\n";
        for (path, text) in [(V1_CPU_TIME, &b"1500000000\n"[..]), (V2_CPU_TIME, v2)] {
            let machine = FakeMachine::new(&[(path, text)], &[]);
            assert_eq!(cpu_time(&machine).await, Some(Duration::from_millis(1500)), "{path}");
        }
        assert_eq!(cpu_time(&FakeMachine::new(&[], &[])).await, None);
    }
}
