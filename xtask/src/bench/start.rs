//! `cargo xtask bench start`: a cluster of one node from nothing, asked, stopped, started and deleted.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::command::Flotilla;
use super::figures::Figure;
use super::watch::{NEVER, Watch, command};
use super::{api, node, pod};

const START: &str = "start from nothing";
const NODE: &str = "the node, 10 s later";
const AGAIN: &str = "start of a running cluster";
const STATUS: &str = "status";
const STOP: &str = "stop";
const RESTART: &str = "start of a stopped cluster";
const DELETE: &str = "delete";

/// The headline: the command has returned, a pod runs, and DNS answers it.
const WORKS: &str = "everything works";
const PARTS_OF_WORKS: [&str; 4] = ["returns", "a pod runs", "the pod runs again", "DNS answers in a pod"];
/// On the machine of docs/dev/benchmarks.md, when it is idle.
const WORKS_WITHIN: f64 = 6.5;

/// How long after DNS answers the node has settled.
const SETTLED: Duration = Duration::from_secs(10);
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
                api::nodes_are_ready(&client, &flotilla.nodes(1), Timestamp::UNIX_EPOCH).await;
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
    let figures = watch.while_running(&["start", "-o", "json"], milestones).await?;
    Ok(headed(START, figures, Some(WORKS_WITHIN)))
}

async fn restart(flotilla: &Flotilla, old: api::Containers, stopped: Timestamp) -> Result<Vec<Figure>> {
    let watch = Watch::begin(flotilla, RESTART);
    let milestones = async {
        let client = api::serves(flotilla).await;
        watch.now("API serves")?;
        tokio::try_join!(
            async {
                api::nodes_are_ready(&client, &flotilla.nodes(1), stopped).await;
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
    let figures = watch.while_running(&["start", "-o", "json"], milestones).await?;
    Ok(headed(RESTART, figures, None))
}

/// The figures after their headline, which is the last of those that a user waits for.
fn headed(part: &'static str, figures: Vec<Figure>, aim: Option<f64>) -> Vec<Figure> {
    let parts = figures.iter().filter(|figure| PARTS_OF_WORKS.contains(&figure.name.as_str()));
    let last = parts.max_by(|one, other| one.value.total_cmp(&other.value));
    let works = last.map(|last| {
        let seconds = Figure::seconds(part, WORKS, last.value);
        Figure { node_cpu: last.node_cpu, aim, ..seconds }
    });
    works.into_iter().chain(figures).collect()
}

/// What the node takes when it has settled.
fn state(flotilla: &Flotilla) -> Result<Vec<Figure>> {
    let memory = node::memory(&flotilla.cluster, flotilla.cluster.as_ref())?;
    let mut figures = vec![
        Figure::megabytes(NODE, "disk", node::disk(&flotilla.primary())),
        Figure::megabytes(NODE, "memory", memory.values().sum()),
    ];
    let large = memory.into_iter().filter(|(_, megabytes)| *megabytes >= WORTH_A_LINE);
    figures.extend(
        large.map(|(name, megabytes)| Figure::megabytes(NODE, format!("memory of {name}"), megabytes)),
    );
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_works_when_the_last_of_what_a_user_waits_for_has_happened() {
        let times =
            [("node Ready", 9.0), ("a pod runs", 5.0), ("DNS answers in a pod", 6.0), ("returns", 5.5)];
        let figures = times.map(|(name, seconds)| Figure::seconds(START, name, seconds)).to_vec();
        let figures = headed(START, figures, Some(WORKS_WITHIN));
        let works = &figures[0];
        assert_eq!((works.name.as_str(), works.value, works.aim), (WORKS, 6.0, Some(6.5)));
        assert_eq!(figures.len(), 5);
    }
}
