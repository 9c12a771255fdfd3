//! Running a test binary, and each test that failed again alone.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use crate::compile::Binary;
use crate::libtest::{self, Summary};
use crate::log::{Log, Place};
use crate::memory::Memory;
use crate::program::{Ended, Interruption, Program};
use crate::report::{Counts, Failure, Kind};
use crate::stage::limit;

/// More failures have one reason, and are not run again.
const MOST_AGAIN: usize = 8;

/// What running a test binary needs.
#[derive(Debug)]
pub(crate) struct Suite<'a> {
    pub(crate) log: &'a Log,
    pub(crate) interruption: &'a Interruption,
    pub(crate) memory: &'a Memory,
    /// What is put before the binary: nothing, or what makes it run as root.
    pub(crate) prefix: Vec<OsString>,
    pub(crate) env: Vec<(String, OsString)>,
}

impl Suite<'_> {
    /// Runs all tests of a binary that the arguments choose.
    pub(crate) fn run(
        &self,
        binary: &Binary,
        args: &[String],
        limit: Duration,
    ) -> io::Result<(Counts, Vec<Failure>)> {
        let begun = Instant::now();
        let place = self.log.end()?;
        self.log.say(&format!("\n==== {} {}", binary.name, args.join(" ")))?;
        let ended = self.program(binary, args).run(self.log, limit, self.interruption)?;
        let printed = self.log.since(place)?;
        let summary = libtest::summary(&printed);
        let told = [" skipped: ", " does not apply here: "].map(|words| printed.matches(words).count());
        let told = told.iter().sum::<usize>().min(summary.passed);
        let mut counts = Counts {
            passed: summary.passed - told,
            failed: summary.failed.len(),
            skipped: summary.skipped + told,
        };
        let mut failures = Vec::new();
        let again = !self.interruption.came() && summary.failed.len() <= MOST_AGAIN;
        for name in &summary.failed {
            let left = limit.saturating_sub(begun.elapsed()).max(limit::AGAIN);
            failures.push(self.judge(binary, name, (place, &printed), again.then_some(left))?);
        }
        if let Some(failure) = self.unfinished(binary, ended, &summary, place)? {
            counts.failed += 1;
            failures.push(failure);
        }
        Ok((counts, failures))
    }

    fn program(&self, binary: &Binary, args: &[String]) -> Program {
        let command = self.prefix.iter().cloned().chain([binary.path.clone().into_os_string()]);
        let mut program = Program::new(command).with(args).with_env("CARGO_MANIFEST_DIR", &binary.folder);
        program.env.extend(self.env.iter().cloned());
        program.folder = Some(binary.folder.clone());
        program
    }

    /// Runs a failed test again alone, if there is time for that.
    fn judge(
        &self,
        binary: &Binary,
        test: &str,
        (place, printed): (Place, &str),
        again: Option<Duration>,
    ) -> io::Result<Failure> {
        let name = format!("{} {test}", binary.name);
        let failed_at = printed.find(&format!("---- {test} ")).unwrap_or_default();
        let line = self.log.line(place + failed_at as u64)?;
        let output = libtest::output_of(printed, test).unwrap_or(printed).to_owned();
        let failure =
            |kind, why: &str, output| Failure { kind, name: name.clone(), why: why.to_owned(), line, output };
        let Some(limit) = again else { return Ok(failure(Kind::Failed, "not run again", output)) };
        let place = self.log.end()?;
        self.log.say(&format!("\n==== again, alone: {name}"))?;
        // Whether or not it is among those that run only when asked for.
        let args = ["--exact", test, "--include-ignored", "--test-threads=1"].map(str::to_owned);
        let ended = self.program(binary, &args).run(self.log, limit, self.interruption)?;
        let printed = self.log.since(place)?;
        let passed = ended.is_success() && libtest::summary(&printed).passed == 1;
        if !passed {
            return Ok(failure(Kind::Failed, "", printed));
        }
        let is_known = self.memory.was_flaky(&name);
        self.memory.note_flaky(&name)?;
        let crate_folder = binary.folder.strip_prefix(std::env::current_dir()?).unwrap_or(&binary.folder);
        Ok(if is_known {
            failure(Kind::Failed, "passed alone, but it has failed at random before", output)
        } else if self.memory.is_changed(&crate_folder.display().to_string()) {
            failure(Kind::Failed, "passed alone, but its crate has changed", output)
        } else {
            failure(Kind::Flaky, "failed in the run, passed alone", output)
        })
    }

    /// A binary that did not get to its end, or failed for another reason than a test.
    fn unfinished(
        &self,
        binary: &Binary,
        ended: Ended,
        summary: &Summary,
        place: Place,
    ) -> io::Result<Option<Failure>> {
        let is_told = summary.is_whole && (ended.is_success() || !summary.failed.is_empty());
        if is_told {
            return Ok(None);
        }
        let mut name = binary.name.clone();
        if !summary.unfinished.is_empty() {
            name = format!("{name} {}", summary.unfinished.join(", "));
        }
        let output = self.log.since(place)?;
        Ok(Some(Failure {
            kind: Kind::Failed,
            name,
            why: ended.to_string(),
            line: self.log.line(place)? + 1,
            output,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Runs a shell script as if it were a test binary, in a source tree of which nothing is known.
    fn run(script: &str, passed_before: bool) -> (Counts, Vec<Failure>, String) {
        let dir = tempfile::tempdir().unwrap();
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
            env: vec![],
        };
        let binary = Binary {
            name: "pkg::cli".to_owned(),
            folder: dir.path().to_owned(),
            path: Path::new("unused").to_owned(),
        };
        let (counts, failures) = suite.run(&binary, &[], Duration::from_secs(20)).unwrap();
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
        assert_eq!(run(&script, false).1[0].kind, Kind::Failed);
    }

    #[test]
    fn a_binary_that_crashes_names_its_test() {
        let (_, failures, _) =
            run("echo 'test a::b has been running for over 60 seconds'; kill -SEGV $$", true);
        let named = failures[0].to_string();
        assert!(named.starts_with("FAILED      pkg::cli a::b (signal: 11"), "{named}");
    }
}
