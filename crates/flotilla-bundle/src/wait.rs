//! Waiting for another program, where nothing tells when it is ready.

use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(50);

/// Asks until there is an answer, for as long as `within`; then gives what the last try said.
#[expect(clippy::disallowed_methods, reason = "the one polling loop of this crate")]
pub(crate) fn until<T, E>(
    within: Duration,
    mut ask: impl FnMut() -> Result<T, E>,
    give_up: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let start = Instant::now();
    loop {
        match ask() {
            Err(error) if start.elapsed() < within && !give_up(&error) => std::thread::sleep(POLL),
            answer => return answer,
        }
    }
}
