//! Running a test binary, and each test that failed again alone.

use std::ffi::OsString;
use std::io;
use std::slice;
use std::time::Instant;

use crate::clock::Clock;
use crate::compile::Binary;
use crate::libtest::{self, Summary};
use crate::log::{Log, Place};
use crate::memory::Memory;
use crate::program::{Ended, Interruption, Program};
use crate::report::{Counts, Failure, Kind};

/// More failures have one reason, and are not run again.
const MOST_AGAIN: usize = 8;

/// How many tests a line names.
const NAMED: usize = 3;

/// What running a test binary needs.
#[derive(Debug)]
pub(crate) struct Suite<'a> {
    pub(crate) log: &'a Log,
    pub(crate) interruption: &'a Interruption,
    pub(crate) memory: &'a Memory,
    /// What is put before the binary: nothing, or what makes it run as root.
    pub(crate) prefix: Vec<OsString>,
    pub(crate) is_guarded: bool,
    pub(crate) env: Vec<(String, OsString)>,
    pub(crate) clock: Clock,
}

/// A run of a test binary, in the log.
#[derive(Debug, Clone, Copy)]
struct Ran<'a> {
    ended: Ended,
    place: Place,
    printed: &'a str,
}

impl Suite<'_> {
    /// Runs all tests of a binary that the arguments choose. Nothing if the stage has no time left for it.
    pub(crate) fn run(&self, binary: &Binary, args: &[String]) -> io::Result<Option<(Counts, Vec<Failure>)>> {
        let Some(limit) = self.clock.for_binary() else { return Ok(None) };
        let begun = Instant::now();
        let place = self.log.end()?;
        self.log.say(&format!("\n==== {} {}", binary.name, args.join(" ")))?;
        let ended = self.program(binary, args).run(self.log, limit, self.interruption);
        self.clock.binary_took(begun.elapsed());
        let printed = self.log.since(place)?;
        let ran = Ran { ended: ended?, place, printed: &printed };
        let summary = libtest::summary(&printed);
        let ended = if summary.is_whole { summary.passed } else { summary.passed_before_the_end() };
        let told = [" skipped: ", " does not apply here: "].map(|words| printed.matches(words).count());
        let told = told.iter().sum::<usize>().min(ended);
        let mut counts =
            Counts { passed: ended - told, failed: summary.failed.len(), skipped: summary.skipped + told };
        let mut failures = Vec::new();
        let again = summary.failed.len() <= MOST_AGAIN;
        for name in &summary.failed {
            failures.push(self.judge(binary, name, ran, again)?);
        }
        if !summary.is_whole || (!ran.ended.is_success() && summary.failed.is_empty()) {
            failures.extend(self.unfinished(binary, args, &summary, ran, &mut counts)?);
        }
        Ok(Some((counts, failures)))
    }

    fn program(&self, binary: &Binary, args: &[String]) -> Program {
        let command = self.prefix.iter().cloned().chain([binary.path.clone().into_os_string()]);
        let mut program = Program::new(command).with(args).with_env("CARGO_MANIFEST_DIR", &binary.folder);
        program.env.extend(self.env.iter().cloned());
        program.folder = Some(binary.folder.clone());
        program.is_guarded = self.is_guarded;
        program
    }

    /// Runs one test. Nothing if there is no time for that, or the run was interrupted.
    fn alone(
        &self,
        binary: &Binary,
        test: &str,
        which: &[&str],
    ) -> io::Result<Option<(Ended, Place, String)>> {
        let Some(limit) = self.clock.for_test_alone().filter(|_| !self.interruption.came()) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let place = self.log.end()?;
        self.log.say(&format!("\n==== again, alone: {} {test}", binary.name))?;
        let args = [&["--exact", test, "--test-threads=1"], which].concat().into_iter().map(str::to_owned);
        let program = self.program(binary, &args.collect::<Vec<_>>());
        let ended = program.run(self.log, limit, self.interruption);
        self.clock.test_alone_took(begun.elapsed());
        Ok(Some((ended?, place, self.log.since(place)?)))
    }

    /// Runs a failed test again alone, if there is time for that.
    fn judge(&self, binary: &Binary, test: &str, ran: Ran<'_>, again: bool) -> io::Result<Failure> {
        let failed_at = ran.printed.find(&format!("---- {test} ")).unwrap_or_default();
        let failed = Failure {
            kind: Kind::Failed,
            name: format!("{} {test}", binary.name),
            why: String::new(),
            line: self.log.line(ran.place + failed_at as u64)?,
            output: libtest::output_of(ran.printed, test).unwrap_or(ran.printed).to_owned(),
        };
        // Whether or not it is among those that run only when asked for.
        let alone = if again { self.alone(binary, test, &["--include-ignored"])? } else { None };
        let Some((ended, _, printed)) = alone else {
            return Ok(Failure { why: "not run again".to_owned(), ..failed });
        };
        let passed = ended.is_success() && libtest::summary(&printed).passed == 1;
        if passed { self.at_random(binary, failed) } else { Ok(Failure { output: printed, ..failed }) }
    }

    /// What failed in the run, and did not when it ran alone.
    fn at_random(&self, binary: &Binary, mut failed: Failure) -> io::Result<Failure> {
        let crate_folder = binary.folder.strip_prefix(std::env::current_dir()?).unwrap_or(&binary.folder);
        let why = if self.memory.was_flaky(&failed.name) {
            "passed alone, but it has failed at random before"
        } else if self.memory.is_changed(&crate_folder.display().to_string()) {
            "passed alone, but its crate has changed"
        } else {
            self.memory.note_flaky(&failed.name)?;
            failed.kind = Kind::Flaky;
            "failed in the run, passed alone"
        };
        failed.why = if failed.why.is_empty() { why.to_owned() } else { format!("{}; {why}", failed.why) };
        Ok(failed)
    }

    /// A binary that did not get to its end, or failed for another reason than a test. Runs each test alone that has not ended.
    fn unfinished(
        &self,
        binary: &Binary,
        args: &[String],
        summary: &Summary,
        ran: Ran<'_>,
        counts: &mut Counts,
    ) -> io::Result<Vec<Failure>> {
        let named = |tests: &[String]| {
            let (shown, others) = tests.split_at(tests.len().min(NAMED));
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            format!("{} {}{more}", binary.name, shown.join(", ")).trim_end().to_owned()
        };
        let failed = |name, why, line, output| Failure { kind: Kind::Failed, name, why, line, output };
        let (mut failures, mut not_run) = (Vec::new(), Vec::new());
        // Of those that run only when asked for the same ones as before.
        let which: Vec<_> = args.iter().map(String::as_str).filter(|arg| *arg == "--ignored").collect();
        let remaining = if summary.is_whole { Vec::new() } else { self.remaining(binary, args, summary)? };
        for test in &remaining {
            let again = if failures.len() < MOST_AGAIN { self.alone(binary, test, &which)? } else { None };
            let Some((ended, place, printed)) = again else {
                not_run.push(test.clone());
                continue;
            };
            let alone = libtest::summary(&printed);
            // A list of tests can name one that does not run.
            if ended.is_success() && alone.is_whole && alone.passed + alone.skipped > 0 {
                counts.passed += alone.passed;
                counts.skipped += alone.skipped;
            } else {
                let why = if alone.is_whole { String::new() } else { ended.to_string() };
                failures.push(failed(named(slice::from_ref(test)), why, self.log.line(place)? + 1, printed));
            }
        }
        let line = self.log.line(ran.place)? + 1;
        if failures.is_empty() {
            let name = named(&summary.unfinished);
            let ended = failed(name, ran.ended.to_string(), line, ran.printed.to_owned());
            let all_passed = !remaining.is_empty() && not_run.is_empty();
            failures.push(if all_passed { self.at_random(binary, ended)? } else { ended });
        }
        if !not_run.is_empty() {
            let why = format!("not run: {}", ran.ended);
            failures.push(failed(named(&not_run), why, line, not_run.join("\n")));
        }
        counts.failed += failures.len();
        Ok(failures)
    }

    /// The tests of a binary that have not ended, those first that are known to have begun.
    fn remaining(&self, binary: &Binary, args: &[String], summary: &Summary) -> io::Result<Vec<String>> {
        let mut remaining = summary.unfinished.clone();
        let Some(limit) = self.clock.for_test_alone().filter(|_| !self.interruption.came()) else {
            return Ok(remaining);
        };
        let place = self.log.end()?;
        self.log.say(&format!("\n==== tests of {}", binary.name))?;
        let list = self.program(binary, args).with(["--list"]);
        if list.run(self.log, limit, self.interruption)?.is_success() {
            let all = libtest::listed(&self.log.since(place)?);
            let known: Vec<_> = summary.ended.iter().chain(&summary.unfinished).collect();
            remaining.extend(all.into_iter().filter(|test| !known.contains(&test)));
        }
        Ok(remaining)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::clock::Limits;

    const LIMITS: Limits = Limits {
        all: Duration::from_secs(40),
        binary: Duration::from_secs(3),
        again: Duration::from_secs(30),
        alone: Duration::from_secs(2),
    };

    /// Runs a shell script as if it were a test binary, in a source tree of which nothing is known.
    fn run(script: &str, passed_before: bool) -> (Counts, Vec<Failure>, String) {
        run_in(&tempfile::tempdir().unwrap(), script, passed_before)
    }

    fn run_in(dir: &TempDir, script: &str, passed_before: bool) -> (Counts, Vec<Failure>, String) {
        let log = Log::create(&dir.path().join("log")).unwrap();
        let mut memory = Memory::new(dir.path().join("cache"));
        if passed_before {
            memory.forget_changes();
        }
        let suite = Suite {
            log: &log,
            interruption: &Interruption::default(),
            memory: &memory,
            prefix: vec!["sh".into(), "-c".into(), script.into()],
            is_guarded: false,
            env: vec![],
            clock: Clock::new(LIMITS, None),
        };
        let binary = Binary {
            name: "pkg::cli".to_owned(),
            folder: dir.path().to_owned(),
            path: Path::new("unused").to_owned(),
        };
        let (counts, failures) = suite.run(&binary, &[]).unwrap().unwrap();
        let flaky = fs::read_to_string(dir.path().join("cache/flaky")).unwrap_or_default();
        (counts, failures, flaky)
    }

    const FAILS: &str = "
        echo 'test a::b ... FAILED'
        printf 'failures:\\n\\n---- a::b stdout ----\\npanicked: why\\n\\n\\nfailures:\\n    a::b\\n\\n'
        echo 'test result: FAILED. 4 passed; 1 failed; 1 ignored; 0 measured; finished in 0.00s'
        exit 101";
    /// It fails unless it is asked for by name.
    const FLAKY: &str = "
        [ \"$1\" != --exact ] || { echo 'test result: ok. 1 passed; 0 failed; 0 ignored'; exit 0; }";

    #[test]
    fn a_test_that_fails_twice_has_failed() {
        let (counts, failures, flaky) = run(FAILS, true);
        assert_eq!(counts, Counts { passed: 4, failed: 1, skipped: 1 });
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].to_string(), "FAILED      pkg::cli a::b (log line 6)");
        assert!(failures[0].output.contains("panicked: why"));
        assert_eq!(flaky, "");
    }

    #[test]
    fn a_test_that_passes_alone_is_flaky_unless_its_crate_has_changed() {
        let script = format!("{FLAKY}{FAILS}");
        let (_, failures, flaky) = run(&script, true);
        assert_eq!(failures[0].kind, Kind::Flaky);
        assert_eq!(failures[0].output.trim(), "panicked: why");
        assert_eq!(flaky, "pkg::cli a::b\n");
        let (_, failures, flaky) = run(&script, false);
        assert_eq!(failures[0].kind, Kind::Failed);
        assert_eq!(failures[0].why, "passed alone, but its crate has changed");
        assert_eq!(flaky, "", "the change may be the reason, and the next one mends it");
    }

    #[test]
    fn a_test_that_is_flaky_a_second_time_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("{FLAKY}{FAILS}");
        assert_eq!(run_in(&dir, &script, true).1[0].kind, Kind::Flaky);
        let (_, failures, flaky) = run_in(&dir, &script, true);
        assert_eq!(failures[0].kind, Kind::Failed);
        assert_eq!(failures[0].why, "passed alone, but it has failed at random before");
        assert_eq!(flaky, "pkg::cli a::b\n");
    }

    /// A binary with four tests that is killed after the first. What each does alone follows as cases.
    fn crashes(alone: &str) -> String {
        let ok = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        format!(
            "case \"$0 $*\" in
                *--list*) for name in a b c d; do echo \"$name: test\"; done; exit;;
                {alone}
                *--exact*) {ok}; exit;;
            esac
            echo 'test a ... ok'
            echo 'test b has been running for over 60 seconds'
            kill -SEGV $$"
        )
    }

    #[test]
    fn what_a_crash_kept_from_ending_runs_alone() {
        let (counts, failures, flaky) = run(&crashes("*--exact\\ b*) kill -SEGV $$;;"), true);
        assert_eq!(counts, Counts { passed: 3, failed: 1, skipped: 0 });
        let named = failures[0].to_string();
        assert!(named.starts_with("FAILED      pkg::cli b (signal: 11"), "{named}");
        assert_eq!((failures.len(), flaky.as_str()), (1, ""));
    }

    #[test]
    fn a_crash_that_no_test_repeats_is_flaky() {
        let (counts, failures, flaky) = run(&crashes(""), true);
        assert_eq!(counts, Counts { passed: 4, failed: 1, skipped: 0 });
        let named = failures[0].to_string();
        assert!(named.starts_with("FLAKY       pkg::cli b (signal: 11"), "{named}");
        assert!(named.contains("; failed in the run, passed alone; "), "{named}");
        assert_eq!(flaky, "pkg::cli b\n");
    }

    #[test]
    fn a_test_that_hangs_is_named_and_the_others_run() {
        let script = crashes("*--exact\\ c*) exec sleep 600;;").replace("kill -SEGV $$", "exec sleep 600");
        let (counts, failures, _) = run(&script, true);
        assert_eq!(counts, Counts { passed: 3, failed: 1, skipped: 0 });
        let named = failures[0].to_string();
        assert!(
            named.starts_with("FAILED      pkg::cli c (killed after 2 s, its limit; log line "),
            "{named}"
        );
    }

    #[test]
    fn tests_without_a_list_or_time_are_reported_as_not_run() {
        let script = crashes("*--exact*) exit 1;;");
        let script = script.replace("in a b c d;", "in a b c d 1 2 3 4 5 6 7 8 9;");
        let (_, failures, _) = run(&script, true);
        let last = failures.last().unwrap().to_string();
        assert!(last.starts_with("FAILED      pkg::cli 6, 7, 8 and 1 more (not run: signal: 11"), "{last}");
        assert_eq!(failures.len(), MOST_AGAIN + 1);
        // Its list is not known either.
        let (_, failures, _) =
            run("echo 'test a::b has been running for over 60 seconds'; kill -SEGV $$", true);
        let named = failures[0].to_string();
        assert!(named.starts_with("FAILED      pkg::cli a::b (signal: 11"), "{named}");
    }
}
