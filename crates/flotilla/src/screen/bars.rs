//! Progress on a terminal: finished steps above, the running ones and the whole below.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anstream::ColorChoice;
use anstream::adapter::strip_str;
use flotilla_core::event::Outcome;
use flotilla_core::{Event, Reporter, Unit};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::pace::{Pace, about, count_of, duration};
use super::{DONE, WARNING};

/// The message is cut off where the line ends: a line that wraps would be drawn over and over.
const STEP: &str = "{spinner:.cyan} {wide_msg}";
const WHOLE: &str = "{done:.cyan}{rest:.dim} {share}%  {time}";
/// How many characters the bar has.
const LENGTH: u8 = 30;
/// How often they are drawn, whether something happens or not: the clock must not stand still.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    whole: ProgressBar,
    /// Also read by whatever draws the whole: never held while something is drawn.
    pace: Arc<Mutex<Pace>>,
    running: Mutex<HashMap<String, Running>>,
}

#[derive(Debug)]
struct Running {
    title: String,
    bar: ProgressBar,
}

impl Bars {
    pub(crate) fn new() -> Self {
        Self::on(ProgressDrawTarget::stderr())
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let pace = Arc::new(Mutex::new(Pace::default()));
        let all = MultiProgress::with_draw_target(target);
        // Drawn from the pace at every tick, so that the bar moves while a step works and says nothing.
        let drawn = |draw: fn(&Pace) -> String| {
            let read = Arc::clone(&pace);
            move |_: &ProgressState, out: &mut dyn Write| {
                // Nothing can be done about a terminal that cannot be written to.
                let _ = out.write_str(&draw(&lock(&read)));
            }
        };
        let style = style(WHOLE)
            .with_key("done", drawn(|pace| done(pace.fraction())))
            .with_key("rest", drawn(|pace| rest(pace.fraction())))
            .with_key("share", drawn(|pace| format!("{:>3.0}", (pace.fraction() * 100.0).floor())))
            .with_key("time", drawn(time));
        let whole = all.add(ProgressBar::new_spinner().with_style(style));
        Self { all, whole, pace, running: Mutex::default() }
    }

    /// Takes the bars away; what was printed above them stays.
    pub(crate) fn clear(&self) {
        // Each by itself: one that still ticks would come back.
        for (_, step) in lock(&self.running).drain() {
            step.bar.finish_and_clear();
        }
        self.whole.finish_and_clear();
        let _ = self.all.clear();
    }

    /// The same for another thread, which ends the program: a bar that nobody takes away stays on the terminal.
    pub(crate) fn remover(&self) -> impl Fn() + Send + 'static {
        let (all, whole) = (self.all.clone(), self.whole.clone());
        move || {
            whole.finish_and_clear();
            let _ = all.clear();
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Writes a line above the bars.
    fn print(&self, line: &str) {
        let plain = anstream::AutoStream::choice(&std::io::stderr()) == ColorChoice::Never;
        // Nothing can be done about a terminal that cannot be written to.
        let _ = if plain { self.all.println(strip_str(line).to_string()) } else { self.all.println(line) };
    }
}

impl Reporter for Bars {
    fn report(&self, event: Event) {
        lock(&self.pace).take(&event);
        let mut running = lock(&self.running);
        match event {
            Event::Plan { steps, expected, .. } => {
                let time = expected.map(|time| format!(", {}", about(time))).unwrap_or_default();
                self.print(&format!("{}{time}", count_of(steps.len())));
            }
            Event::StepStarted { step, title, .. } => {
                let bar =
                    self.all.insert_before(&self.whole, ProgressBar::new_spinner().with_style(style(STEP)));
                bar.set_message(title.clone());
                bar.enable_steady_tick(TICK);
                running.insert(step, Running { title, bar });
                // At once: the first tick is a moment away, which may be all the time it takes.
                self.whole.force_draw();
                self.whole.enable_steady_tick(TICK);
            }
            Event::StepProgress { step, done, total, unit, detail } => {
                let Some(Running { title, bar }) = running.get(&step) else { return };
                bar.set_message(format!("{title}: {} {detail}", count(done, total, unit)));
            }
            Event::StepDone { step, took, outcome } => {
                let Some(Running { title, bar }) = running.remove(&step) else { return };
                let end = match outcome {
                    Outcome::Done => duration(took),
                    Outcome::Kept => "nothing to do".into(),
                };
                bar.finish_and_clear();
                self.all.remove(&bar);
                self.print(&format!("{DONE}✓{DONE:#} {title} ({end})"));
            }
            Event::Note { text } => self.print(&text),
            Event::Warning { text } => self.print(&format!("{WARNING}warning{WARNING:#}: {text}")),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the lock")
}

/// How many characters of the bar are done.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of a small number")]
fn filled(fraction: f64) -> usize {
    (fraction * f64::from(LENGTH)) as usize
}

/// The part that is done, and its end.
fn done(fraction: f64) -> String {
    let end = if filled(fraction) < usize::from(LENGTH) { "╸" } else { "" };
    "━".repeat(filled(fraction)) + end
}

/// The rest: to be told apart without colours.
fn rest(fraction: f64) -> String {
    "─".repeat(usize::from(LENGTH).saturating_sub(filled(fraction) + 1))
}

/// `6 min 2 s, about 9 min left`.
fn time(pace: &Pace) -> String {
    let left = pace.remaining().map(|time| format!(", {} left", about(time))).unwrap_or_default();
    format!("{}{left}", duration(pace.elapsed()))
}

/// `412/1693 packages`, `120 MB`.
pub(crate) fn count(done: u64, total: Option<u64>, unit: Unit) -> String {
    let name = match unit {
        Unit::Bytes => {
            let size = flotilla_core::event::size;
            return total.map_or_else(|| size(done), |total| format!("{} of {}", size(done), size(total)));
        }
        Unit::Packages => "packages",
        Unit::Images => "images",
    };
    total.map_or_else(|| format!("{done} {name}"), |total| format!("{done}/{total} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    const MINUTE: Duration = Duration::from_mins(1);

    fn terminal(columns: u16) -> (InMemoryTerm, Bars) {
        let terminal = InMemoryTerm::new(20, columns);
        let bars = Bars::on(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        (terminal, bars)
    }

    /// What is on the screen after the next tick, with every spinner in the same place and without the time so far.
    fn seen(terminal: &InMemoryTerm, bars: &Bars) -> String {
        bars.whole.force_draw();
        let spinning = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c);
        let shown = terminal.contents().replace(spinning, "⠿");
        let around_the_time = |(before, after)| Some((before, str::split_once(after, ", ")?.1));
        match shown.split_once("%  ").and_then(around_the_time) {
            Some((before, after)) => format!("{before}%  [TIME], {after}"),
            None => shown,
        }
    }

    fn start(bars: &Bars, step: &str, title: &str, minutes: u32) {
        bars.report(Event::StepStarted {
            step: step.into(),
            title: title.into(),
            expected: Some(MINUTE * minutes),
        });
    }

    fn progress(bars: &Bars, step: &str, done: u64, total: u64, detail: &str) {
        let (unit, detail) = (Unit::Packages, detail.to_owned());
        bars.report(Event::StepProgress { step: step.into(), done, total: Some(total), unit, detail });
    }

    fn done(bars: &Bars, step: &str, seconds: u64, outcome: Outcome) {
        bars.report(Event::StepDone { step: step.into(), took: Duration::from_secs(seconds), outcome });
    }

    #[test]
    fn finished_steps_stand_above_those_that_run() {
        let (terminal, bars) = terminal(80);
        let steps = ["userland", "pause", "kubernetes"].map(str::to_owned).to_vec();
        let expected = Some(MINUTE * 10);
        bars.report(Event::Plan { steps, expected, work: expected });
        start(&bars, "pause", "pause 3.10.2", 1);
        start(&bars, "userland", "userland", 2);
        start(&bars, "kubernetes", "kubernetes v1.37.1", 8);
        done(&bars, "pause", 1, Outcome::Kept);
        done(&bars, "userland", 95, Outcome::Done);
        bars.report(Event::Warning { text: "apt has another version of bash".into() });
        progress(&bars, "kubernetes", 412, 1648, "k8s.io/apiserver/pkg/server");
        insta::assert_snapshot!(seen(&terminal, &bars), @"
        3 steps, about 10 min
        ✓ pause 3.10.2 (nothing to do)
        ✓ userland (1 min 35 s)
        warning: apt has another version of bash
        ⠿ kubernetes v1.37.1: 412/1648 packages k8s.io/apiserver/pkg/server
        ━━━━━━━━━━━━╸─────────────────  40%  [TIME], about 4 min left
        ");
        bars.clear();
        insta::assert_snapshot!(seen(&terminal, &bars), @"
        3 steps, about 10 min
        ✓ pause 3.10.2 (nothing to do)
        ✓ userland (1 min 35 s)
        warning: apt has another version of bash
        ");
    }

    #[test]
    fn long_messages_leave_nothing_behind() {
        for columns in [20, 40, 80] {
            let (terminal, bars) = terminal(columns);
            start(&bars, "export", "writing /a/rather/long/path/to/some/folder/that/does/not/fit.tar.zst", 1);
            for n in 0..50 {
                progress(&bars, "export", n, 50, &"store/io.containerd.content.v1.content/".repeat(3));
            }
            done(&bars, "export", 1, Outcome::Done);
            bars.clear();
            let shown = terminal.contents().replace('\n', "");
            assert_eq!(shown, "✓ writing /a/rather/long/path/to/some/folder/that/does/not/fit.tar.zst (1 s)");
        }
    }

    #[test]
    fn waiting_is_one_line_without_a_bar() {
        let (terminal, bars) = terminal(80);
        bars.report(Event::Note { text: "waiting for process 7 to remove a bundle".into() });
        assert_eq!(terminal.contents(), "waiting for process 7 to remove a bundle");
    }

    #[test]
    fn a_thread_that_ends_the_program_can_take_the_bars_away() {
        let (terminal, bars) = terminal(80);
        start(&bars, "verify", "checking v1.37.1", 1);
        assert_ne!(terminal.contents(), "");
        let remove = bars.remover();
        std::thread::spawn(remove).join().unwrap();
        progress(&bars, "verify", 1, 2, "still at it");
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn a_bar_that_was_cleared_stays_away() {
        let (terminal, bars) = terminal(80);
        start(&bars, "verify", "checking v1.37.1", 1);
        bars.clear();
        bars.whole.tick();
        assert_eq!(terminal.contents(), "");
    }
}
