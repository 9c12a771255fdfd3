//! What took how long.

use std::fmt::Write;
use std::time::Duration;

use super::Test;
use crate::lab;

/// A row for each test, and one for each start of a cluster below it.
#[derive(Debug, Default)]
pub(super) struct Times {
    rows: String,
    tests: Duration,
    starts: Duration,
    clusters: usize,
}

impl Times {
    /// Adds a test, and the starts that it announced in what it printed.
    pub(super) fn add(&mut self, test: &Test, took: Duration, output: &str) {
        self.tests += took;
        writeln!(self.rows, "{:8.1}  [{}] {}", took.as_secs_f64(), test.tier.name(), test.name).unwrap();
        for (seconds, what) in output.lines().filter_map(lab::announced_start) {
            self.starts += Duration::from_secs_f64(seconds);
            self.clusters += 1;
            writeln!(self.rows, "{:8}  {seconds:8.1}  {what}", "").unwrap();
        }
    }

    pub(super) fn print(&self) {
        if self.rows.is_empty() {
            return;
        }
        say(&format!("{:>8}  what took how long", "seconds"));
        say(self.rows.trim_end());
        let (tests, starts) = (self.tests.as_secs_f64(), self.starts.as_secs_f64());
        say(&format!(
            "{tests:8.1}  all tests, of which {starts:.1} for {} starts of clusters",
            self.clusters
        ));
    }
}

#[expect(clippy::print_stdout, reason = "this is a test harness")]
pub(super) fn say(text: &str) {
    println!("{text}");
}
