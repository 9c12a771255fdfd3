//! Chooses the next step of a plan: the one with the longest chain of dependent steps first, and never more of a kind
//! at the same time than the host's cores can handle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::plan::{Action, Plan};

/// How many steps of a kind may run at the same time.
///
/// Forty joins at once on two cores are not faster than four at a time: they compete for CPU with the API server that
/// each of them needs, until the first of them times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    cores: usize,
}

/// The kinds of steps that are limited, because they use much of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Copies files and starts programs: needs CPU.
    Boot,
    /// The same, and waits for the API in between.
    Join,
    /// Deletes files.
    Remove,
    /// Mostly waits for services or pods to stop.
    Wait,
}

impl Lanes {
    pub fn of_cores(cores: u32) -> Self {
        Self { cores: usize::try_from(cores).unwrap_or(usize::MAX).max(1) }
    }

    fn width(self, lane: Lane) -> usize {
        match lane {
            Lane::Boot | Lane::Remove => self.cores.max(2),
            Lane::Join => self.cores.saturating_mul(2).max(4),
            Lane::Wait => self.cores.saturating_mul(8),
        }
    }
}

impl Lane {
    /// Steps without a kind do little, or exist only once.
    fn of(action: &Action) -> Option<Self> {
        match action {
            Action::Machine(_) => Some(Self::Boot),
            Action::Join(_) => Some(Self::Join),
            Action::RemoveMachine(_) => Some(Self::Remove),
            Action::Stop(_)
            | Action::Drain(..)
            | Action::Unpause(_)
            | Action::UpdateLabels(..)
            | Action::RemoveFromApi(_) => Some(Self::Wait),
            _ => None,
        }
    }
}

/// The progress of a plan.
pub(super) struct Schedule<'a> {
    plan: &'a Plan,
    lanes: Lanes,
    /// For each step, the expected time of it and of the longest chain of steps after it.
    chains: Vec<Duration>,
    /// The steps that have not started, in the plan's order.
    waiting: BTreeSet<usize>,
    under_way: BTreeMap<Lane, usize>,
    done: BTreeSet<usize>,
    failed: BTreeSet<usize>,
}

impl<'a> Schedule<'a> {
    pub(super) fn of(plan: &'a Plan, lanes: Lanes) -> Self {
        let waiting = (0..plan.steps.len()).collect();
        let (under_way, done, failed) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { plan, lanes, chains: chains(plan), waiting, under_way, done, failed }
    }

    /// Starts the next step, if one is ready: of a limited kind, the one with the longest chain after it.
    pub(super) fn begin(&mut self) -> Option<usize> {
        let can_begin = || self.waiting.iter().copied().filter(|step| self.can_begin(*step));
        let first = can_begin().next()?;
        let lane = self.lane(first);
        let of_its_kind = can_begin().filter(|step| lane.is_some() && self.lane(*step) == lane);
        // The first of equal ones: `max_by_key` would return the last.
        let step = of_its_kind.min_by_key(|step| Reverse(self.chains[*step])).unwrap_or(first);
        self.waiting.remove(&step);
        if let Some(lane) = lane {
            *self.under_way.entry(lane).or_default() += 1;
        }
        Some(step)
    }

    /// Ends a step; if it succeeded, steps that depend on it become ready.
    pub(super) fn end(&mut self, step: usize, success: bool) {
        if let Some(under_way) = self.lane(step).and_then(|lane| self.under_way.get_mut(&lane)) {
            *under_way -= 1;
        }
        if success {
            self.done.insert(step);
        } else {
            self.failed.insert(step);
        }
    }

    pub(super) fn all_done(&self) -> bool {
        self.done.len() == self.plan.steps.len()
    }

    fn can_begin(&self, step: usize) -> bool {
        let has_room = |lane| self.under_way.get(&lane).copied().unwrap_or(0) < self.lanes.width(lane);
        let after = &self.plan.steps[step].after;
        self.lane(step).is_none_or(has_room)
            && after.iter().all(|before| self.done.contains(before) || self.is_over(*before, step))
    }

    /// Whether a step may begin though the one before it failed. A node boots with all its routes: one that runs and cannot
    /// be told of it must not keep it off.
    fn is_over(&self, before: usize, step: usize) -> bool {
        let [before_action, action] = [before, step].map(|step| &self.plan.steps[step].action);
        self.failed.contains(&before)
            && matches!((before_action, action), (Action::Routes, Action::Machine(_)))
    }

    fn lane(&self, step: usize) -> Option<Lane> {
        Lane::of(&self.plan.steps[step].action)
    }
}

impl Plan {
    /// The expected time if steps run in parallel wherever the plan and the lanes allow it.
    pub fn expected(&self, lanes: Lanes) -> Duration {
        let mut schedule = Schedule::of(self, lanes);
        let (mut now, mut under_way) = (Duration::ZERO, BTreeSet::new());
        loop {
            while let Some(step) = schedule.begin() {
                under_way.insert((now + self.steps[step].expected, step));
            }
            let Some((end, step)) = under_way.pop_first() else { return now };
            now = end;
            schedule.end(step, true);
        }
    }
}

/// For each step, the expected time of it and of the longest chain of steps after it.
fn chains(plan: &Plan) -> Vec<Duration> {
    let mut longest: Vec<_> = plan.steps.iter().map(|step| step.expected).collect();
    // A step comes after its dependencies, so in reverse order each value is final when it is read.
    for (index, step) in plan.steps.iter().enumerate().rev() {
        for &before in &step.after {
            longest[before] = longest[before].max(plan.steps[before].expected + longest[index]);
        }
    }
    longest
}
