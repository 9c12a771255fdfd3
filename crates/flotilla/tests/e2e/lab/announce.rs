//! What a test tells its runner, which is another process, in lines among what it prints: how long the starts of clusters took.

use std::time::Duration;

const START: &str = "==== start ";

#[expect(clippy::print_stdout, reason = "the runner reads it")]
pub(crate) fn start(name: &str, args: &[&str], took: Duration) {
    println!("{START}{:.1} {name} {}", took.as_secs_f64(), args.join(" "));
}

/// How many seconds a start took that this line announces, the name of the cluster and the arguments.
pub(crate) fn announced_start(line: &str) -> Option<(f64, &str)> {
    let (seconds, what) = line.strip_prefix(START)?.split_once(' ')?;
    Some((seconds.parse().ok()?, what.trim_end()))
}
