//! What `-v` prints: every step, every program that is run on the host or in a node, and with more of it the requests to
//! the API.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// From here on it goes to stderr: `-v 1` for our own doings, `-v 4` for those of libraries, `-v 7` for everything.
pub(crate) fn print_from(level: u8) {
    let (own, others) = match level {
        0 => (LevelFilter::OFF, LevelFilter::OFF),
        1..4 => (LevelFilter::DEBUG, LevelFilter::OFF),
        4..7 => (LevelFilter::TRACE, LevelFilter::DEBUG),
        _ => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    let targets = Targets::new().with_target("flotilla", own).with_default(others);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time();
    // It fails only where somebody else prints already.
    let _ = tracing_subscriber::registry().with(lines).with(targets).try_init();
}
