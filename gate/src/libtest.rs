//! What test binaries print: the format of Rust's own test harness, which libtest-mimic has, too.

/// How a run of a test binary ended, as far as it said so.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Whether it got to its end.
    pub(crate) is_whole: bool,
    pub(crate) passed: usize,
    pub(crate) skipped: usize,
    pub(crate) failed: Vec<String>,
    /// Tests that ended, however.
    pub(crate) ended: Vec<String>,
    /// Tests that began and did not end.
    pub(crate) unfinished: Vec<String>,
}

impl Summary {
    /// How many tests passed in a run that was cut off.
    pub(crate) fn passed_before_the_end(&self) -> usize {
        self.ended.len().saturating_sub(self.failed.len() + self.skipped)
    }
}

/// Reads what one run of a test binary printed. Other output may stand between its lines.
pub(crate) fn summary(printed: &str) -> Summary {
    let mut summary = Summary::default();
    let (mut begun, mut failed, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut is_list, mut ignored) = (false, 0);
    for line in printed.lines() {
        let test = line.strip_prefix("test ");
        if let Some(counts) = line.strip_prefix("test result: ") {
            summary.is_whole = true;
            is_list = false;
            summary.passed = count(counts, "passed");
            summary.skipped = count(counts, "ignored");
        } else if line == "failures:" {
            // It comes twice: first with what the tests printed, last with their names only. A test may have run tests itself,
            // whose list and result come before.
            listed.clear();
            is_list = true;
        } else if is_list && let Some(name) = line.strip_prefix("    ") {
            listed.push(name.to_owned());
        } else if let Some((name, status)) = test.and_then(|test| test.split_once(" ... ")) {
            let name = plain_name(name.trim_end());
            begun.retain(|other| other != name);
            if is_status(status) {
                summary.ended.push(name.to_owned());
                ignored += usize::from(status.starts_with("ignored"));
            }
            if status == "FAILED" {
                failed.push(name.to_owned());
            } else if !is_status(status) {
                begun.push(name.to_owned());
            }
        } else if let Some(name) =
            test.and_then(|test| test.strip_suffix(" has been running for over 60 seconds"))
        {
            begun.push(plain_name(name).to_owned());
        } else if is_status(line) {
            // What the test printed stands between its name and this.
            summary.ended.extend(begun.pop());
        }
    }
    if summary.is_whole {
        summary.failed = if count_of(printed, "failed") == 0 { Vec::new() } else { listed };
    } else {
        summary.skipped = ignored;
        (summary.failed, summary.unfinished) = (failed, begun);
    }
    summary
}

/// A number of the last line.
fn count_of(printed: &str, word: &str) -> usize {
    let last = printed.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    last.map_or(0, |counts| count(counts, word))
}

fn is_status(text: &str) -> bool {
    matches!(text, "ok" | "FAILED" | "ignored") || text.starts_with("ignored, ")
}

/// The number before a word: `3` of `1 passed; 3 failed`.
fn count(counts: &str, word: &str) -> usize {
    let number =
        counts.split([';', '.']).find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok());
    number.unwrap_or_default()
}

/// The name without what libtest-mimic puts before it: the kind of the test.
pub(crate) fn plain_name(listed: &str) -> &str {
    match listed.split_once("] ") {
        Some((kind, name)) if kind.starts_with('[') => name,
        _ => listed,
    }
}

/// The names in what a test binary prints for `--list`.
pub(crate) fn listed(printed: &str) -> Vec<String> {
    let names = printed.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(|name| plain_name(name).to_owned()).collect()
}

/// What a failed test printed, of what its whole binary printed.
pub(crate) fn output_of<'a>(printed: &'a str, name: &str) -> Option<&'a str> {
    let heads = [format!("---- {name} stdout ----\n"), format!("---- {name} ----\n")];
    let begin = heads.iter().find_map(|head| Some(printed.find(head.as_str())? + head.len()))?;
    let rest = &printed[begin..];
    let end = ["\n---- ", "\nfailures:\n"].iter().filter_map(|end| rest.find(end)).min();
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBTEST: &str = "
running 3 tests
test a::passes ... ok
test a::is_skipped ... ignored, needs root
test a::fails ... FAILED

failures:

---- a::fails stdout ----
thread 'a::fails' panicked at src/lib.rs:9:9:
    indented
test it ... FAILED is no name

failures:
    a::fails

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

";

    #[test]
    fn failures_and_counts_are_read_from_the_end() {
        let summary = summary(LIBTEST);
        assert!(summary.is_whole);
        assert_eq!((summary.passed, summary.skipped), (1, 1));
        assert_eq!(summary.failed, ["a::fails"]);
        assert_eq!(output_of(LIBTEST, "a::fails").unwrap().lines().count(), 3);
        assert_eq!(output_of(LIBTEST, "a::passes"), None);
    }

    #[test]
    fn kinds_are_no_part_of_a_name() {
        let printed = "\
test [core] nodes::come_and_go   ... \nthread 'main' panicked\nFAILED

failures:
    one that it ran itself

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 52 filtered out; finished in 1.00s

    indented
test [core] nodes::stay          ... ok

failures:

---- nodes::come_and_go ----
test panicked: no node


failures:
    nodes::come_and_go

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s

times, in seconds:
     0.9  [core] nodes::stay";
        assert_eq!(summary(printed).failed, ["nodes::come_and_go"], "the table of times is none of them");
        assert_eq!(output_of(printed, "nodes::come_and_go").unwrap().trim(), "test panicked: no node");
        assert_eq!(plain_name("[core] nodes::stay"), "nodes::stay");
        assert_eq!(plain_name("nodes::stay"), "nodes::stay");
    }

    #[test]
    fn a_binary_that_is_killed_names_what_it_was_at() {
        let printed = "\
running 5 tests
test done ... ok
test other ... ignored, needs root
test early ... FAILED
test hangs has been running for over 60 seconds
test slow has been running for over 60 seconds
test slow ... ok
";
        let summary = summary(printed);
        assert!(!summary.is_whole);
        assert_eq!(summary.unfinished, ["hangs"]);
        assert_eq!(summary.failed, ["early"]);
        assert_eq!(summary.ended, ["done", "other", "early", "slow"]);
        assert_eq!((summary.passed_before_the_end(), summary.skipped), (2, 1));
        assert_eq!(listed("done: test\n[core] hangs: test\n\n2 tests, 0 benchmarks\n"), ["done", "hangs"]);
        // One after the other, with the name first.
        let printed = "test first ... ok\ntest second ... what it prints\nmore of it\n";
        assert_eq!(super::summary(printed).unfinished, ["second"]);
    }
}
