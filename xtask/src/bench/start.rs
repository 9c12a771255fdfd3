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
    watch.while_running(&["start", "-o", "json"], milestones).await
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
    watch.while_running(&["start", "-o", "json"], milestones).await
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
