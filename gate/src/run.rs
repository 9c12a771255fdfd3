//! A run of the tests, from its first stage to its report.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::clock::{Clock, Limits};
use crate::compile::{self, Binary, Compiled};
use crate::log::Log;
use crate::memory::Memory;
use crate::program::{Interruption, Program};
use crate::report::{Counts, Failure, Kind, minutes, pass, tail};
use crate::stage::{Tier, limit};
use crate::suite::Suite;
use crate::{guard, lock, machine};

/// How many lines of what a failed stage or test printed are shown.
const SHOWN: usize = 60;
/// A run in CI ends by itself before CI ends it, and reports.
const CI_LIMIT: Duration = Duration::from_mins(86);
/// Set by `.ci/run` and scripts/test.
const BEGUN: &str = "FLOTILLA_TEST_BEGUN";
/// The version whose nodes the tests mix with newer ones.
const OLDER: &str = "v1.36.4";
/// Failed requests to the internet have exit codes in the forties: docs/reference/exit-codes.md.
const INTERNET: std::ops::Range<i32> = 40..50;

const NO_TIME: &str = "not run, no time was left";
/// As a shell reports a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

#[derive(Debug)]
pub(crate) struct Run {
    tier: Tier,
    log: Log,
    memory: Memory,
    interruption: Interruption,
    begun: Instant,
    settings: Settings,
    counts: Counts,
    /// Each with its stage.
    failures: Vec<(String, Failure)>,
    /// The one that began last.
    stage: String,
    /// Held to the end: no other run compiles these programs again, or begins another log.
    _checkout: File,
}

/// What the environment says.
#[derive(Debug)]
struct Settings {
    is_ci: bool,
    is_root: bool,
    /// The person's state directory.
    home: PathBuf,
    /// Which inputs properties are tried on.
    seed: u64,
}

impl Run {
    /// Waits for another run in the same checkout. Nothing if that was interrupted.
    pub(crate) fn begin(tier: Tier) -> Result<Option<Self>> {
        let begun = begun();
        let interruption = Interruption::watch()?;
        let target = std::env::current_exe()?;
        let folder = target.parent().context("this program has no directory")?;
        let waiting = |holder: &str| println!("waiting for the run in {}: {holder}", folder.display());
        let checkout = lock::take(&folder.join("tests.lock"), || interruption.came(), waiting);
        let checkout = checkout.with_context(|| format!("cannot lock {}", folder.display()))?;
        let Some(checkout) = checkout else { return Ok(None) };
        let log = Log::create(&folder.join("tests.log"))?;
        let memory = Memory::new(from_env("XDG_CACHE_HOME", ".cache")?.join("flotilla/tests"));
        let settings = Settings {
            is_ci: variable("CI").is_some(),
            is_root: rustix::process::geteuid().is_root(),
            home: from_env("FLOTILLA_HOME", ".flotilla")?,
            // The same ones each time, so that a change that passed passes again. The full tier looks for more.
            seed: if tier == Tier::Full { seconds_now() } else { 1 },
        };
        log.say(&format!("PROPTEST_RNG_SEED={}", settings.seed))?;
        Ok(Some(Self {
            tier,
            log,
            memory,
            interruption,
            begun,
            settings,
            counts: Counts::default(),
            failures: vec![],
            stage: "start".to_owned(),
            _checkout: checkout,
        }))
    }

    /// Exits with 1 if anything failed, with 130 if somebody interrupted it.
    pub(crate) fn finish(mut self) -> Result<ExitCode> {
        let rust = Program::new(["rustc", "-V"]).answer().unwrap_or_default();
        println!("{}; log: {}", rust.trim(), self.log.path.display());
        // What has failed by now is reported all the same.
        if let Err(error) = self.stages() {
            let line = self.log.line(self.log.end()?)?;
            self.fail(Failure {
                kind: Kind::Failed,
                name: "the gate itself".to_owned(),
                why: format!("{error:#}"),
                line,
                output: format!("{error:?}"),
            });
        }
        self.report()
    }

    fn fail(&mut self, failure: Failure) {
        self.failures.push((self.stage.clone(), failure));
    }

    fn stages(&mut self) -> Result<()> {
        if self.tier.has_fast() {
            self.command(
                "formatting",
                &Program::new(["cargo", "fmt", "--all", "--check"]),
                limit::FORMATTING,
            )?;
            let shellcheck = ["sh", "-c", "exec shellcheck --external-sources scripts/* .ci/run"];
            self.command("scripts", &Program::new(shellcheck), limit::SCRIPTS)?;
        }
        if !self.command("compiling", &compile::program(), limit::COMPILING)? {
            return Ok(());
        }
        let compiled = compile::compiled()?;
        let Some(_lock) = self.lock()? else { return Ok(()) };
        if self.tier.has_fast() {
            self.unit_tests(&compiled)?;
            let clippy = "cargo clippy --workspace --all-targets --locked --quiet -- -D warnings";
            self.command("lints", &Program::new(clippy.split(' ')), limit::LINTS)?;
        }
        if self.tier != Tier::Fast && self.failures.iter().all(|(_, failure)| failure.kind == Kind::Flaky) {
            self.clusters(&compiled)?;
        }
        Ok(())
    }

    /// All but those on real clusters and the driver's contract, which needs a bundle.
    fn unit_tests(&mut self, compiled: &Compiled) -> Result<()> {
        let is_later =
            |binary: &&Binary| ["flotilla::e2e", "flotilla-native::native"].contains(&binary.name.as_str());
        let binaries: Vec<_> = compiled.tests.iter().filter(|binary| !is_later(binary)).collect();
        self.tests("unit tests", &binaries, &[], limit::UNIT_TESTS, &[])
    }

    fn clusters(&mut self, compiled: &Compiled) -> Result<()> {
        let binary =
            |name: &str| compiled.tests.iter().find(|binary| binary.name == name).context("no test binary");
        let (contract, e2e) = (binary("flotilla-native::native")?, binary("flotilla::e2e")?);
        // A second version is compiled with what the first one has cached.
        let Some(digest) = self.bundle(compiled, "bundle", &["--keep-cache"])? else { return Ok(()) };
        let lanes = |name: &str| vec![name.to_owned(), "--ignored".to_owned(), "--test-threads=2".to_owned()];
        if self.tier.has_core() {
            let digest = [("FLOTILLA_TEST_BUNDLE".to_owned(), digest.into())];
            self.tests("driver contract", &[contract], &[], limit::CONTRACT, &digest)?;
            self.tests("clusters: core", &[e2e], &lanes("[core]"), limit::CORE, &[])?;
        }
        if self.tier == Tier::Full {
            self.bundle(compiled, "older bundle", &["--kubernetes-version", OLDER])?;
            self.tests("clusters: full", &[e2e], &lanes("[full]"), limit::FULL, &[])?;
            let user = [("FLOTILLA_TEST_ISOLATION".to_owned(), "user".into())];
            self.tests("clusters: core in user namespaces", &[e2e], &lanes("[core]"), limit::FULL, &user)?;
        }
        if let Tier::Named(names) = self.tier.clone() {
            let names = if names.is_empty() { vec![String::new()] } else { names };
            for name in names {
                self.tests(&format!("clusters: {name}"), &[e2e], &lanes(&name), limit::FULL, &[])?;
            }
        }
        Ok(())
    }

    /// Builds a bundle, and gives its digest.
    fn bundle(&mut self, compiled: &Compiled, stage: &str, args: &[&str]) -> Result<Option<String>> {
        let build = |prefix: Vec<OsString>| {
            let command = prefix.into_iter().chain([compiled.flotilla.clone().into_os_string()]);
            Program::new(command).with(["bundle", "build", "--source", "build", "-o", "json"]).with(args)
        };
        let guarded = Program { is_guarded: true, ..build(self.guard()) };
        if !self.command(stage, &guarded, limit::BUNDLE)? {
            return Ok(None);
        }
        // The bundle exists by now: the second time it is only described.
        let said = build(self.as_root()).answer().context("`bundle build` failed the second time")?;
        let digest = said.lines().rev().find_map(digest_in).context("`bundle build` named no digest")?;
        Ok(Some(digest))
    }

    /// A stage that is one program. Gives whether it succeeded.
    fn command(&mut self, stage: &str, program: &Program, limit: Duration) -> Result<bool> {
        if self.interruption.came() {
            return Ok(false);
        }
        let (begun, place) = (self.begin_stage(stage)?, self.log.end()?);
        let limit = self.within(limit);
        if limit.is_zero() {
            self.fail(Failure {
                kind: Kind::Failed,
                name: stage.to_owned(),
                why: NO_TIME.to_owned(),
                line: self.log.line(place)?,
                output: String::new(),
            });
            end(begun, stage, ": not run");
            return Ok(false);
        }
        let ended = program.run(&self.log, limit, &self.interruption)?;
        if !ended.is_success() {
            let kind = match ended {
                crate::program::Ended::Status(status)
                    if status.code().is_some_and(|code| INTERNET.contains(&code)) =>
                {
                    Kind::Environment
                }
                _ => Kind::Failed,
            };
            let (line, output) = (self.log.line(place)?, self.log.since(place)?);
            self.fail(Failure { kind, name: stage.to_owned(), why: ended.to_string(), line, output });
        }
        end(begun, stage, if ended.is_success() { "" } else { ": failed" });
        Ok(ended.is_success())
    }

    /// A stage of test binaries, one after the other.
    fn tests(
        &mut self,
        stage: &str,
        binaries: &[&Binary],
        args: &[String],
        limits: Limits,
        env: &[(String, OsString)],
    ) -> Result<()> {
        if self.interruption.came() {
            return Ok(());
        }
        let begun = self.begin_stage(stage)?;
        let suite = Suite {
            log: &self.log,
            interruption: &self.interruption,
            memory: &self.memory,
            prefix: self.guard(),
            is_guarded: true,
            env: [&self.environment(), env].concat(),
            clock: Clock::new(limits, self.ends()),
        };
        let (mut counts, mut times) = (Counts::default(), Vec::new());
        let (mut failed, mut not_run) = (Vec::new(), Vec::new());
        for binary in binaries {
            let (started, place) = (Instant::now(), self.log.end()?);
            match suite.run(binary, args) {
                Ok(Some((counted, failures))) => {
                    counts.add(counted);
                    failed.extend(failures);
                }
                Ok(None) => not_run.push(binary.name.as_str()),
                Err(error) => {
                    counts.failed += 1;
                    failed.push(Failure {
                        kind: Kind::Failed,
                        name: binary.name.clone(),
                        why: format!("not started: {error}"),
                        line: self.log.line(place)?,
                        output: error.to_string(),
                    });
                }
            }
            times.push((started.elapsed(), &binary.name));
            if self.interruption.came() {
                break;
            }
        }
        if !not_run.is_empty() {
            counts.failed += 1;
            failed.push(Failure {
                kind: Kind::Failed,
                name: stage.to_owned(),
                why: format!("{NO_TIME}: {}", not_run.join(", ")),
                line: self.log.line(self.log.end()?)?,
                output: String::new(),
            });
        }
        times.sort();
        let slowest: Vec<_> =
            times.iter().rev().take(5).map(|(took, name)| format!("{name} {} s", took.as_secs())).collect();
        self.log.say(&format!("\n{stage}: {counts}; slowest: {}", slowest.join(", ")))?;
        self.counts.add(counts);
        for failure in failed {
            self.fail(failure);
        }
        end(begun, stage, &format!(": {counts}"));
        Ok(())
    }

    fn report(self) -> Result<ExitCode> {
        let Self { log, counts, begun, .. } = &self;
        let failures: Vec<_> = self.failures.iter().map(|(_, failure)| failure).collect();
        let (passed, interrupted) = (pass(&failures), self.interruption.came());
        let code = match (interrupted, passed) {
            (true, _) => INTERRUPTED,
            (false, passed) => u8::from(!passed),
        };
        let passed = code == 0;
        for failure in &failures {
            println!("\n==== {}\n{}", failure.name, tail(&failure.output, SHOWN));
        }
        if !failures.is_empty() {
            println!("\n{}", machine::state(&self.settings.home));
        }
        println!();
        for failure in &failures {
            println!("{failure}");
        }
        println!(
            "{} in {}. Log: {}",
            if passed { "passed" } else { "failed" },
            minutes(begun.elapsed()),
            log.path.display()
        );
        if interrupted {
            println!("exit {code}, interrupted in stage: {}", self.stage);
        } else if !passed {
            let mut stages: Vec<_> = self.failures.iter().map(|(stage, _)| stage.as_str()).collect();
            stages.dedup();
            let word = if stages.len() == 1 { "stage" } else { "stages" };
            println!("exit {code} in {word}: {}", stages.join(", "));
        }
        // In the form that CI reads.
        println!("{counts}");
        if passed && self.tier.has_core() {
            self.memory.note_passed()?;
        }
        Ok(code.into())
    }

    /// Nothing if the wait was interrupted, or a run in CI has no time left for it, which is a failure.
    fn lock(&mut self) -> Result<Option<File>> {
        let mut holder = String::new();
        let waiting = |who: &str| {
            println!("waiting for other tests on this machine: {who}");
            who.clone_into(&mut holder);
        };
        let ends = self.ends();
        let give_up = || self.interruption.came() || ends.is_some_and(|ends| Instant::now() >= ends);
        let take = || {
            let Some(lock) = lock::take(&lock::of_machine(), give_up, waiting)? else { return Ok(None) };
            // Tests of a run that was killed may still be ending.
            let waiting = |_: &str| println!("waiting for the end of the tests of a killed run");
            let is_over = lock::take(&lock::of_guard(), give_up, waiting)?.is_some();
            std::io::Result::Ok(is_over.then_some(lock))
        };
        let lock = take().context("cannot lock the machine for the tests")?;
        if lock.is_none() && !self.interruption.came() {
            let line = self.log.line(self.log.end()?)?;
            self.fail(Failure {
                kind: Kind::Environment,
                name: "other tests on this machine".to_owned(),
                why: format!("they did not end in time: {holder}"),
                line,
                output: String::new(),
            });
        }
        Ok(lock)
    }

    fn begin_stage(&mut self, stage: &str) -> Result<Instant> {
        stage.clone_into(&mut self.stage);
        self.log.say(&format!("\n== {stage}, after {}", minutes(self.begun.elapsed())))?;
        if std::io::stdout().is_terminal() {
            print!("        {stage} …\r");
            std::io::stdout().flush()?;
        }
        Ok(Instant::now())
    }

    /// What makes a program run as root, if the tier needs that and we are not.
    fn as_root(&self) -> Vec<OsString> {
        if self.settings.is_root || self.tier == Tier::Fast {
            return Vec::new();
        }
        vec![Path::new("scripts/as-root").canonicalize().unwrap_or_default().into_os_string()]
    }

    /// What runs a program as [`Self::as_root`] says and ends it with us, whoever it runs as.
    fn guard(&self) -> Vec<OsString> {
        let mut prefix = self.as_root();
        // Not by its path: compiling replaces the file there.
        prefix.extend([format!("/proc/{}/exe", std::process::id()).into(), guard::WORD.into()]);
        prefix
    }

    fn environment(&self) -> Vec<(String, OsString)> {
        let mut env = vec![("PROPTEST_RNG_SEED".to_owned(), self.settings.seed.to_string().into())];
        if self.settings.is_root || self.tier != Tier::Fast {
            // A test that is skipped because this machine lacks something has shown nothing.
            env.push(("FLOTILLA_TEST_REQUIRE".to_owned(), "1".into()));
        }
        env
    }

    fn within(&self, limit: Duration) -> Duration {
        self.ends().map_or(limit, |ends| limit.min(ends.saturating_duration_since(Instant::now())))
    }

    /// When it has to report.
    fn ends(&self) -> Option<Instant> {
        self.settings.is_ci.then(|| self.begun + CI_LIMIT)
    }
}

/// When the run began, which in CI is before what it compiles was fetched: BEGUN has the seconds since 1970.
fn begun() -> Instant {
    let seconds = variable(BEGUN).and_then(|text| text.to_str()?.parse::<u64>().ok());
    let since = seconds.map_or(0, |seconds| seconds_now().saturating_sub(seconds));
    let now = Instant::now();
    now.checked_sub(Duration::from_secs(since)).unwrap_or(now)
}

fn end(begun: Instant, stage: &str, how: &str) {
    println!("{:>6}  {stage}{how}", minutes(begun.elapsed()));
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

/// The digest in a line of `bundle build -o json`.
fn digest_in(line: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(event.pointer("/data/digest")?.as_str()?.to_owned())
}

fn from_env(name: &str, below_home: &str) -> Result<PathBuf> {
    let named = variable(name).map(PathBuf::from);
    let below = || Some(PathBuf::from(variable("HOME")?).join(below_home));
    named.or_else(below).with_context(|| format!("neither {name} nor HOME is set"))
}

#[expect(clippy::disallowed_methods, reason = "this program runs tests, and has settings of its own")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_last_event() {
        assert_eq!(digest_in(r#"{"type":"x","data":{"digest":"abc"}}"#).as_deref(), Some("abc"));
        assert_eq!(digest_in(r#"{"type":"step","data":{}}"#), None);
        assert_eq!(digest_in("no JSON"), None);
    }
}
