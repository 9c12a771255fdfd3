//! A clock beside a command: when things happen after it began.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::command::{Flotilla, Ran};
use super::figures::Figure;
use super::{api, node, pod};

/// What does not exist by then never comes.
pub(super) const NEVER: Duration = Duration::from_mins(5);

/// A command during which nothing is awaited.
pub(super) async fn command(
    flotilla: &Flotilla,
    part: &'static str,
    args: &'static [&str],
) -> Result<Vec<Figure>> {
    let before = node::cpu(&flotilla.cluster)?;
    let ran = spawn(flotilla, args).await?;
    let after = node::cpu(&flotilla.cluster)?;
    let node_cpu = before.zip(after).map(|(before, after)| after - before);
    Ok(of_command(part, &ran, node_cpu))
}

/// The clock of a command: when things happen after it began, and what the nodes took until then.
pub(super) struct Watch<'a> {
    flotilla: &'a Flotilla,
    part: &'static str,
    began: Instant,
    /// The same moment, for times that others wrote down.
    since: Timestamp,
    /// CPU seconds of nodes that ran before.
    used: f64,
    seen: RefCell<Vec<Figure>>,
}

impl<'a> Watch<'a> {
    /// Of a cluster that does not run: its control group is made again and counts from the beginning.
    pub(super) fn begin(flotilla: &'a Flotilla, part: &'static str) -> Self {
        let (began, since) = (Instant::now(), Timestamp::now());
        Self { flotilla, part, began, since, used: 0.0, seen: RefCell::default() }
    }

    /// Of a cluster that runs.
    pub(super) fn begin_running(flotilla: &'a Flotilla, part: &'static str) -> Result<Self> {
        let used = node::cpu(&flotilla.cluster)?.unwrap_or_default();
        Ok(Self { used, ..Self::begin(flotilla, part) })
    }

    /// Notes that something happened.
    pub(super) fn now(&self, name: &str) -> Result<()> {
        self.at(name, self.began.elapsed().as_secs_f64())
    }

    /// Notes that something happened which should happen within so many seconds.
    pub(super) fn aimed(&self, name: &str, aim: f64) -> Result<()> {
        self.now(name)?;
        let mut seen = self.seen.borrow_mut();
        if let Some(figure) = seen.last_mut() {
            figure.aim = Some(aim);
        }
        Ok(())
    }

    fn at(&self, name: &str, seconds: f64) -> Result<()> {
        let node_cpu = self.node_cpu()?;
        self.seen.borrow_mut().push(Figure { node_cpu, ..Figure::seconds(self.part, name, seconds) });
        Ok(())
    }

    fn node_cpu(&self) -> Result<Option<f64>> {
        Ok(node::cpu(&self.flotilla.cluster)?.map(|now| now - self.used))
    }

    pub(super) async fn dns_answers(&self) -> Result<()> {
        let folder = self.flotilla.primary();
        loop {
            if let Some(time) = pod::answered(&folder, self.since) {
                return self.at("DNS answers in a pod", (time - self.since).total(jiff::Unit::Second)?);
            }
            tokio::time::sleep(api::LOOK).await;
        }
    }

    /// Runs a command while something is awaited. If one of them fails, that is the end of both.
    pub(super) async fn while_running(
        &self,
        args: &'static [&str],
        milestones: impl Future<Output = Result<()>>,
    ) -> Result<Vec<Figure>> {
        let milestones = Box::pin(milestones);
        let command = async {
            let ran = spawn(self.flotilla, args).await?;
            Ok(of_command(self.part, &ran, self.node_cpu()?))
        };
        let milestones = async {
            let seen = tokio::time::timeout(NEVER, milestones).await;
            seen.with_context(|| format!("{}: after {NEVER:?} only {} was seen", self.part, self.names()))?
        };
        let (of_command, ()) = tokio::try_join!(command, milestones)?;
        let mut figures = self.seen.take();
        figures.extend(of_command);
        Ok(figures)
    }

    fn names(&self) -> String {
        let seen = self.seen.borrow();
        let names: Vec<&str> = seen.iter().map(|figure| figure.name.as_str()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    }
}

async fn spawn(flotilla: &Flotilla, args: &'static [&str]) -> Result<Ran> {
    let flotilla = flotilla.clone();
    tokio::task::spawn_blocking(move || flotilla.run(args)).await?
}

/// When a command returned, and how long its steps took.
fn of_command(part: &'static str, ran: &Ran, node_cpu: Option<f64>) -> Vec<Figure> {
    let returned = Figure::seconds(part, "returns", ran.seconds);
    let mut figures = vec![Figure { node_cpu, flotilla_cpu: Some(ran.cpu), ..returned }];
    // What is behind the slash is a node. The same step of all nodes is one figure.
    let kind = |name: &str| name.split('/').next().unwrap_or(name).to_owned();
    let steps = ran.steps.iter();
    figures
        .extend(steps.map(|step| Figure::seconds(part, format!("step {}", kind(&step.name)), step.seconds)));
    figures
}
