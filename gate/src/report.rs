//! The last lines of a run: every failure, with its line in the log.

use std::fmt;
use std::time::Duration;

/// How many tests may fail at random in a run that passes all the same.
const MOST_FLAKY: usize = 2;

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// A test with its binary, or a stage.
    pub(crate) name: String,
    /// What else is known of it.
    pub(crate) why: String,
    /// Its line in the log.
    pub(crate) line: usize,
    /// The end of what it printed.
    pub(crate) output: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It fails always, or has failed at random before, or its crate has changed.
    Failed,
    /// It failed in the run and passed alone.
    Flaky,
    /// Not ours: a registry that does not answer, a missing tool.
    Environment,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Failed => "FAILED",
            Self::Flaky => "FLAKY",
            Self::Environment => "ENVIRONMENT",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12}{} (", self.kind, self.name)?;
        if !self.why.is_empty() {
            write!(f, "{}; ", self.why)?;
        }
        write!(f, "log line {})", self.line)
    }
}

/// How many tests ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Whether these let the run pass: few tests that fail at random, and nothing else.
pub(crate) fn pass(failures: &[&Failure]) -> bool {
    failures.len() <= MOST_FLAKY && failures.iter().all(|failure| failure.kind == Kind::Flaky)
}

/// Minutes and seconds: `2:05`.
pub(crate) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The last lines of a text, for the screen.
pub(crate) fn tail(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind) -> Failure {
        Failure {
            kind,
            name: "flotilla::cli a::b".to_owned(),
            why: String::new(),
            line: 812,
            output: String::new(),
        }
    }

    #[test]
    fn a_failure_is_one_line() {
        assert_eq!(failure(Kind::Failed).to_string(), "FAILED      flotilla::cli a::b (log line 812)");
        let flaky = Failure { why: "passed alone".to_owned(), ..failure(Kind::Flaky) };
        assert_eq!(flaky.to_string(), "FLAKY       flotilla::cli a::b (passed alone; log line 812)");
    }

    #[test]
    fn two_flaky_tests_let_a_run_pass_and_nothing_else_does() {
        let all = [Kind::Flaky, Kind::Failed, Kind::Environment].map(failure);
        let [flaky, failed, environment] = all.each_ref();
        assert!(pass(&[]));
        assert!(pass(&[flaky, flaky]));
        assert!(!pass(&[flaky, flaky, flaky]));
        assert!(!pass(&[failed]));
        assert!(!pass(&[flaky, environment]));
    }

    #[test]
    fn times_and_tails_are_short() {
        assert_eq!(minutes(Duration::from_secs(125)), "2:05");
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
