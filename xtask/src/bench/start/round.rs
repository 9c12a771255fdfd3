//! One run: a cluster from nothing, asked, stopped, started and deleted.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::command::{Flotilla, Ran};
use super::figures::Figure;
use super::{api, node, pod};

const START: &str = "start from nothing";
const NODE: &str = "the node, 10 s later";
const AGAIN: &str = "start of a running cluster";
const STATUS: &str = "status";
const STOP: &str = "stop";
const RESTART: &str = "start of a stopped cluster";
const DELETE: &str = "delete";

/// How long after DNS answers the node has settled.
const SETTLED: Duration = Duration::from_secs(10);
/// What is not there by then never comes.
const NEVER: Duration = Duration::from_mins(5);
/// Programs with less memory than this are only in the sum.
const WORTH_A_LINE: f64 = 1.0;

/// Does all of it, and leaves nothing. `image` is one that does nothing and is in the bundle.
pub(super) async fn run(flotilla: &Flotilla, image: &str) -> Result<Vec<Figure>> {
    let mut figures = Box::pin(start(flotilla, image)).await?;
    tokio::time::sleep(SETTLED).await;
    figures.extend(state(flotilla)?);
    figures.extend(command(flotilla, AGAIN, &["start", "-o", "json"]).await?);
    figures.extend(command(flotilla, STATUS, &["status"]).await?);
    let client =
        tokio::time::timeout(NEVER, api::serves(flotilla)).await.context("the API does not serve")?;
    let containers = api::containers(&client).await?;
    let stopped = Timestamp::now();
    figures.extend(command(flotilla, STOP, &["stop", "-o", "json"]).await?);
    figures.extend(Box::pin(restart(flotilla, containers, stopped)).await?);
    figures.extend(command(flotilla, DELETE, &["delete", "-o", "json"]).await?);
    Ok(figures)
}

async fn start(flotilla: &Flotilla, image: &str) -> Result<Vec<Figure>> {
    let watch = Watch::begin(flotilla, START);
    let milestones = async {
        let client = api::serves(flotilla).await;
        watch.now("API serves")?;
        tokio::try_join!(
            async {
                api::node_is_ready(&client, Timestamp::UNIX_EPOCH).await;
                watch.now("node Ready")
            },
            async {
                api::pod_runs(&client, image).await?;
                watch.now("a pod runs")
            },
            watch.dns_answers(),
        )
        .map(drop)
    };
    watch.while_running(&["start", "-o", "json"], milestones).await
}

async fn restart(flotilla: &Flotilla, old: api::Containers, stopped: Timestamp) -> Result<Vec<Figure>> {
    let watch = Watch::begin(flotilla, RESTART);
    let milestones = async {
        let client = api::serves(flotilla).await;
        watch.now("API serves")?;
        tokio::try_join!(
            async {
                api::node_is_ready(&client, stopped).await;
                watch.now("node Ready")
            },
            async {
                let ours = format!("{}/{}", pod::NAMESPACE, pod::NAME);
                let mut told = Ok(());
                let back = |name: &str| {
                    if name == ours {
                        told = watch.now("the pod runs again");
                    }
                };
                api::pods_are_back(&client, old, back).await;
                told?;
                watch.now("all pods run again")
            },
            watch.dns_answers(),
        )
        .map(drop)
    };
    watch.while_running(&["start", "-o", "json"], milestones).await
}

/// A command during which nothing is awaited.
async fn command(flotilla: &Flotilla, part: &'static str, args: &'static [&str]) -> Result<Vec<Figure>> {
    let before = node::cpu(&flotilla.cluster)?;
    let ran = spawn(flotilla, args).await?;
    let after = node::cpu(&flotilla.cluster)?;
    let node_cpu = before.zip(after).map(|(before, after)| after - before);
    Ok(of_command(part, &ran, node_cpu))
}

/// What the node takes when it has settled.
fn state(flotilla: &Flotilla) -> Result<Vec<Figure>> {
    let memory = node::memory(&flotilla.cluster)?;
    let mut figures = vec![
        Figure::megabytes(NODE, "disk", node::disk(&flotilla.node_folder())),
        Figure::megabytes(NODE, "memory", memory.values().sum()),
    ];
    let large = memory.into_iter().filter(|(_, megabytes)| *megabytes >= WORTH_A_LINE);
    figures.extend(
        large.map(|(name, megabytes)| Figure::megabytes(NODE, format!("memory of {name}"), megabytes)),
    );
    Ok(figures)
}

/// The clock of a `start`: when things happen after it began, and what the node took until then.
struct Watch<'a> {
    flotilla: &'a Flotilla,
    part: &'static str,
    began: Instant,
    /// The same moment, for times that others wrote down.
    since: Timestamp,
    seen: RefCell<Vec<Figure>>,
}

impl<'a> Watch<'a> {
    fn begin(flotilla: &'a Flotilla, part: &'static str) -> Self {
        let (began, since) = (Instant::now(), Timestamp::now());
        Self { flotilla, part, began, since, seen: RefCell::default() }
    }

    /// Notes that something happened.
    fn now(&self, name: &str) -> Result<()> {
        self.at(name, self.began.elapsed().as_secs_f64())
    }

    fn at(&self, name: &str, seconds: f64) -> Result<()> {
        // The node's control group is made anew by every start: it counts from its beginning.
        let node_cpu = node::cpu(&self.flotilla.cluster)?;
        self.seen.borrow_mut().push(Figure { node_cpu, ..Figure::seconds(self.part, name, seconds) });
        Ok(())
    }

    async fn dns_answers(&self) -> Result<()> {
        let folder = self.flotilla.node_folder();
        loop {
            if let Some(time) = pod::answered(&folder, self.since) {
                return self.at("DNS answers in a pod", (time - self.since).total(jiff::Unit::Second)?);
            }
            tokio::time::sleep(api::LOOK).await;
        }
    }

    /// Runs a command while something is awaited. If one of them fails, that is the end of both.
    async fn while_running(
        &self,
        args: &'static [&str],
        milestones: impl Future<Output = Result<()>>,
    ) -> Result<Vec<Figure>> {
        let milestones = Box::pin(milestones);
        let command = async {
            let ran = spawn(self.flotilla, args).await?;
            Ok(of_command(self.part, &ran, node::cpu(&self.flotilla.cluster)?))
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
    // The only node is named like the cluster: what is behind the slash says nothing.
    let kind = |name: &str| name.split('/').next().unwrap_or(name).to_owned();
    let steps = ran.steps.iter();
    figures
        .extend(steps.map(|step| Figure::seconds(part, format!("step {}", kind(&step.name)), step.seconds)));
    figures
}
