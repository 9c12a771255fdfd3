//! Runs cases in a test binary that has its own `main`, and reports tests that this host cannot run.
//!
//! Such a binary starts itself again as a stage of what it tests, and that must happen before a test harness starts
//! threads. So it calls [`run`] in the end; the command line is that of every test binary ([`libtest_mimic`]).

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// Reports that a test does nothing, because the host lacks something that it could have: root, a program. Where nothing may be missing, as in CI, that is
/// a failure: `FLOTILLA_TEST_REQUIRE` is set.
pub fn skip(why: &str) {
    if let Err(error) = skip_unless(required(), why) {
        panic!("{error}");
    }
    report("skipped", why);
}

/// Reports that there is nothing to test on this host, as hosts of its kind do not have what the test is about. That is
/// never a failure: nothing that could be installed is missing.
pub fn does_not_apply(why: &str) {
    report("does not apply here", why);
}

/// Not by a macro, whose output the harness keeps to itself: a test that did nothing looks like one that passed.
fn report(what: &str, why: &str) {
    let thread = std::thread::current();
    let line = format!("test {} {what}: {why}\n", thread.name().unwrap_or_default());
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Whether a skipped test is a failure.
#[expect(clippy::disallowed_methods, reason = "tests read their own switches")]
fn required() -> bool {
    std::env::var_os("FLOTILLA_TEST_REQUIRE").is_some_and(|value| !value.is_empty())
}

fn skip_unless(required: bool, why: &str) -> Result<(), String> {
    if required {
        return Err(format!("this test may not be skipped (FLOTILLA_TEST_REQUIRE is set): {why}"));
    }
    Ok(())
}

/// A case, and its name.
pub type Case = (&'static str, Box<dyn FnOnce() + Send>);

/// Runs the cases that the arguments ask for, one after the other unless they ask for more at once.
///
/// `lacking` is what the tests need and this host does not have: then they are ignored, or fail as in [`skip`].
pub fn run(args: &[OsString], lacking: Option<&str>, cases: Vec<Case>) -> ExitCode {
    conclude(Arguments::from_iter(args), lacking, required(), cases).exit_code()
}

fn conclude(mut args: Arguments, lacking: Option<&str>, required: bool, cases: Vec<Case>) -> Conclusion {
    // They share the host's kernel.
    args.test_threads.get_or_insert(1);
    let trials = cases.into_iter().map(|case| trial(case, lacking, required)).collect();
    libtest_mimic::run(&args, trials)
}

fn trial((name, case): Case, lacking: Option<&str>, required: bool) -> Trial {
    let Some(lacking) = lacking else {
        return Trial::test(name, move || {
            case();
            Ok(())
        });
    };
    let lacking = lacking.to_owned();
    Trial::ignorable_test(name, move || ignored_unless(required, &lacking))
}

/// How a case ends that needs something this host does not have: ignored, or failed as in [`skip`].
pub fn ignored(lacking: &str) -> Result<Completion, Failed> {
    ignored_unless(required(), lacking)
}

fn ignored_unless(required: bool, lacking: &str) -> Result<Completion, Failed> {
    let why = format!("it needs {lacking}");
    skip_unless(required, &why)?;
    Ok(Completion::ignored_with(why))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// How many passed, failed, were ignored and were filtered out.
    fn counts(args: &[&str], lacking: Option<&str>, required: bool, cases: Vec<Case>) -> [u64; 4] {
        let args = Arguments::from_iter([&["test", "--logfile", "/dev/null"], args].concat());
        let it = conclude(args, lacking, required, cases);
        [it.num_passed, it.num_failed, it.num_ignored, it.num_filtered_out]
    }

    #[test]
    fn a_case_that_panics_fails_the_run_and_lets_the_others_go_on() {
        let ran = Arc::new(AtomicBool::new(false));
        let sees = Arc::clone(&ran);
        let cases: Vec<Case> = vec![
            ("bad", Box::new(|| panic!("on purpose"))),
            ("good", Box::new(move || sees.store(true, Ordering::SeqCst))),
        ];
        assert_eq!(counts(&[], None, true, cases), [1, 1, 0, 0]);
        assert!(ran.load(Ordering::SeqCst));
    }

    #[test]
    fn cases_are_ignored_where_something_is_lacking_and_fail_where_nothing_may_be() {
        let cases = || -> Vec<Case> { vec![("bad", Box::new(|| panic!("it must not run")))] };
        assert_eq!(counts(&[], Some("root"), false, cases()), [0, 0, 1, 0]);
        assert_eq!(counts(&[], Some("root"), true, cases()), [0, 1, 0, 0]);
        assert_eq!(counts(&["other"], Some("root"), true, cases()), [0, 0, 0, 1]);
    }

    #[test]
    fn a_skip_is_a_failure_where_nothing_may_be_missing() {
        assert_eq!(skip_unless(false, "there is no root"), Ok(()));
        assert!(skip_unless(true, "there is no root").unwrap_err().ends_with("is set): there is no root"));
    }
}
