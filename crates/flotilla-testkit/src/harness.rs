//! Runs cases in a test binary that has its own `main`.
//!
//! Such a binary starts itself again as a stage of what it tests, and that must happen before a test harness starts
//! threads. So it goes without the usual one; this understands as much of its command line as `cargo test` and
//! `cargo nextest` use: `--list`, `--exact`, `--ignored` and filters.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a test harness")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Says that a test does nothing, because the host lacks something. Where nothing may be missing, as in CI, that is a
/// failure: `FLOTILLA_TEST_REQUIRE` says so.
#[expect(clippy::disallowed_methods, reason = "tests read their own switches")]
pub fn skip(why: &str) {
    skip_unless(std::env::var_os("FLOTILLA_TEST_REQUIRE").is_some_and(|value| !value.is_empty()), why);
}

fn skip_unless(required: bool, why: &str) {
    assert!(!required, "this test may not be skipped (FLOTILLA_TEST_REQUIRE is set): {why}");
    println!("skipped: {why}");
}

/// A case, and its name.
pub type Case<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Runs the cases that the arguments (without the program's own name) ask for, one after the other.
///
/// `lacking` is what the tests cannot do without and this host does not have: see [`skip`].
pub fn run(args: &[String], lacking: Option<&str>, cases: &[Case<'_>]) -> ExitCode {
    let wanted = wanted(args, cases);
    if args.iter().any(|arg| arg == "--list") {
        for (name, _) in wanted {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(lacking) = lacking {
        let skipped = catch_unwind(|| skip(&format!("these tests need {lacking}")));
        return if skipped.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(101) };
    }
    println!("\nrunning {} tests", wanted.len());
    let mut failed = Vec::new();
    for (name, case) in &wanted {
        let passed = catch_unwind(AssertUnwindSafe(case)).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(name);
        }
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out",
        if failed.is_empty() { "ok" } else { "FAILED" },
        wanted.len() - failed.len(),
        failed.len(),
        cases.len() - wanted.len(),
    );
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("failed: {failed:?}");
    ExitCode::from(101)
}

fn wanted<'a, 'c>(args: &[String], cases: &'a [Case<'c>]) -> Vec<&'a Case<'c>> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    // Values of `--format terse` and the like are no filters.
    let valued = ["--format", "--color", "--test-threads", "--skip", "-Z"];
    let is_filter =
        |at: usize| !args[at].starts_with('-') && (at == 0 || !valued.contains(&args[at - 1].as_str()));
    let filters: Vec<&str> =
        (0..args.len()).filter(|at| is_filter(*at)).map(|at| args[at].as_str()).collect();
    let chosen = |name: &str| {
        let matches = |filter: &&str| if has("--exact") { name == *filter } else { name.contains(filter) };
        filters.is_empty() || filters.iter().any(matches)
    };
    // None is ignored, so who asks for those gets none.
    cases.iter().filter(|(name, _)| chosen(name) && !has("--ignored")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Vec<&'static str> {
        let cases: Vec<Case<'_>> =
            ["boots", "boots_twice", "stops"].map(|name| (name, Box::new(|| ()) as Box<dyn Fn()>)).into();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        wanted(&args, &cases).into_iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn cases_are_chosen_as_cargo_test_and_nextest_ask() {
        assert_eq!(names(&[]), ["boots", "boots_twice", "stops"]);
        assert_eq!(names(&["boots", "--nocapture"]), ["boots", "boots_twice"]);
        assert_eq!(names(&["boots", "--exact"]), ["boots"]);
        assert_eq!(names(&["--list", "--format", "terse"]), ["boots", "boots_twice", "stops"]);
        assert_eq!(names(&["--ignored"]), [] as [&str; 0]);
    }

    #[test]
    fn a_case_that_panics_fails_the_run_and_lets_the_others_go_on() {
        let ran = std::cell::Cell::new(false);
        let cases: [Case<'_>; 2] =
            [("bad", Box::new(|| panic!("on purpose"))), ("good", Box::new(|| ran.set(true)))];
        assert_eq!(run(&[], None, &cases), ExitCode::from(101));
        assert!(ran.get());
    }

    #[test]
    fn a_skip_is_a_failure_where_nothing_may_be_missing() {
        skip_unless(false, "there is no root");
        let failed = catch_unwind(|| skip_unless(true, "there is no root")).unwrap_err();
        assert!(failed.downcast::<String>().unwrap().ends_with("is set): there is no root"));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "CI lets nothing be skipped, this neither")]
    fn nothing_runs_where_something_is_lacking() {
        let cases: [Case<'_>; 1] = [("bad", Box::new(|| panic!("it must not run")))];
        let required = std::env::var_os("FLOTILLA_TEST_REQUIRE").is_some_and(|value| !value.is_empty());
        let expected = if required { ExitCode::from(101) } else { ExitCode::SUCCESS };
        assert_eq!(run(&[], Some("root"), &cases), expected);
    }
}
