//! How the tests are listed, chosen, run and timed.
//!
//! The command line is libtest's ([`libtest_mimic`]); docs/dev/testing.md shows it. Each test runs in a process of its own, so that
//! one that hangs can be ended, what it prints stays together, and two can run at once. With `--nocapture` it runs in
//! this process instead, one after the other and without a limit: for a person who watches.

mod child;
mod left_over;
mod times;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use flotilla_testkit::{harness, is_root};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use child::Interruption;
pub(crate) use left_over::{RUN, processes};
use times::Times;

/// How often a test is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// For every change: shows each capability once, with one bundle.
    Core,
    /// When its area changes and before a release: every kill, every example, other versions, what is slow.
    Full,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
        }
    }

    /// How long one test may take. Several times what it takes on two idle cores.
    fn limit(self) -> Duration {
        match self {
            Self::Core => Duration::from_mins(15),
            Self::Full => Duration::from_mins(30),
        }
    }
}

/// A test, as [`tests!`](crate::tests) lists it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test {
    pub(crate) tier: Tier,
    /// Whether nothing else may run beside it, since it changes or measures what all tests share.
    pub(crate) alone: bool,
    /// Its module and its function.
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// Lists tests: `tests![Core: module::what_it_shows, Full: module::what_needs_the_host (alone)]`.
#[macro_export]
macro_rules! tests {
    (@alone) => { false };
    (@alone alone) => { true };
    ($($tier:ident: $($name:ident)::+ $(($how:ident))?,)*) => {
        &[$($crate::suite::Test {
            tier: $crate::suite::Tier::$tier,
            alone: $crate::tests!(@alone $($how)?),
            name: $crate::tests!(@name $($name)::+),
            run: $crate::$($name)::+,
        }),*]
    };
    (@name $first:ident $(:: $name:ident)*) => { concat!(stringify!($first), $("::", stringify!($name)),*) };
}

/// What the runs of all tests share.
#[derive(Debug)]
struct Suite {
    args: Arguments,
    /// Held for writing by a test that runs alone.
    host: RwLock<()>,
    times: Mutex<Times>,
    interruption: Interruption,
}

/// Runs the tests that the command line asks for.
pub(crate) fn main(tests: &'static [Test]) -> ExitCode {
    child::end_with_suite();
    let mut args = Arguments::from_args();
    if args.nocapture {
        args.test_threads = Some(1);
    }
    args.test_threads.get_or_insert(1);
    let runs = !args.nocapture && !args.list && is_root();
    let _lock = runs.then(left_over::lock);
    if runs {
        left_over::remove();
    }
    let suite = Arc::new(Suite {
        args: args.clone(),
        host: RwLock::new(()),
        times: Mutex::default(),
        // A test in this process is ended by the signal itself.
        interruption: if args.nocapture { Interruption::default() } else { Interruption::watch() },
    });
    let trials = tests.iter().map(|test| suite.trial(test)).collect();
    let done = libtest_mimic::run(&args, trials);
    if args.list {
        return ExitCode::SUCCESS;
    }
    suite.times.lock().unwrap().print();
    let ran = done.num_passed + done.num_failed + done.num_ignored;
    if ran == 0 && args.ignored {
        times::say("no test has this name; `--list` shows them all");
        return ExitCode::FAILURE;
    }
    done.exit_code()
}

impl Suite {
    fn trial(self: &Arc<Self>, test: &'static Test) -> Trial {
        let suite = Arc::clone(self);
        let run = move || if is_root() { suite.run(test) } else { harness::ignored("root") };
        Trial::ignorable_test(test.name, run).with_kind(test.tier.name()).with_ignored_flag(true)
    }

    fn run(&self, test: &Test) -> Result<Completion, Failed> {
        // A test that panicked while it held the lock has said so itself.
        let _alone = test.alone.then(|| self.host.write().unwrap_or_else(PoisonError::into_inner));
        let _beside = (!test.alone).then(|| self.host.read().unwrap_or_else(PoisonError::into_inner));
        let begun = Instant::now();
        if self.args.nocapture {
            (test.run)();
            self.times.lock().unwrap().add(test, begun.elapsed(), "");
            return Ok(Completion::Completed);
        }
        let (done, output) = child::run(test, &self.interruption);
        self.times.lock().unwrap().add(test, begun.elapsed(), &output);
        if done.is_err() || self.args.show_output {
            times::say(&format!("\n==== {}\n{output}", test.name));
        }
        done.map(|()| Completion::Completed).map_err(Failed::from)
    }
}
