//! The one place that sleeps: for changes that the kernel does not report.

use std::time::{Duration, Instant};

/// How long to wait before asking another program again.
const POLL: Duration = Duration::from_millis(50);

/// Asks until there is an answer, for as long as `within`; then gives what the last try said. An error for which
/// `give_up` holds is final.
pub fn until<T, E>(
    within: Duration,
    mut ask: impl FnMut() -> Result<T, E>,
    give_up: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let start = Instant::now();
    loop {
        match ask() {
            Err(error) if start.elapsed() < within && !give_up(&error) => pause(POLL),
            answer => return answer,
        }
    }
}

/// Waits before looking again.
#[expect(
    clippy::disallowed_methods,
    reason = "no event tells that another process is ready, gave back a lock or has left its cgroup"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn an_answer_ends_the_asking() {
        let mut left = 3;
        let ask = || {
            left -= 1;
            if left == 0 { Ok("here") } else { Err("not yet") }
        };
        assert_eq!(until(LONG, ask, |_| false), Ok("here"));
    }

    #[test]
    fn a_final_error_and_the_end_of_patience_do_too() {
        assert_eq!(until(LONG, || Err::<(), _>("dead"), |error| *error == "dead"), Err("dead"));
        assert_eq!(until(Duration::ZERO, || Err::<(), _>("not yet"), |_| false), Err("not yet"));
    }
}
