//! `cargo xtask bench nodes`: clusters of several nodes, and what one more of them costs.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::command::Flotilla;
use super::figures::Figure;
use super::watch::{NEVER, Watch, command};
use super::{api, node};

const FEW: &str = "start --nodes 3";
const ADD: &str = "node add";
const STOP: &str = "node stop";
const START: &str = "node start";
const DELETE: &str = "node delete";
const MANY: &str = "start --nodes 10";
const WORKER: &str = "each added worker";
const END: &str = "delete of 10 nodes";

const READY: &str = "all nodes Ready";
/// The node that comes and goes.
const NODE: &str = "bench-extra";
/// How long after the start the workers have settled.
const SETTLED: Duration = Duration::from_secs(10);

/// Does all of it, and leaves nothing. `image` is one that does nothing and is in the bundle.
pub(super) async fn run(flotilla: &Flotilla, image: &str) -> Result<Vec<Figure>> {
    let mut figures = Box::pin(few(flotilla, image)).await?;
    let client =
        tokio::time::timeout(NEVER, api::serves(flotilla)).await.context("the API does not serve")?;
    let ready = async |since| {
        api::nodes_are_ready(&client, &[NODE.to_owned()], since).await;
    };
    let added = Watch::begin_running(flotilla, ADD)?;
    let milestone = async {
        ready(Timestamp::UNIX_EPOCH).await;
        added.aimed("node Ready", 5.0)
    };
    figures.extend(added.while_running(&["node", "add", NODE, "-o", "json"], milestone).await?);

    let stopped = Timestamp::now();
    figures.extend(command(flotilla, STOP, &["node", "stop", NODE, "-o", "json"]).await?);
    let started = Watch::begin_running(flotilla, START)?;
    let milestone = async {
        ready(stopped).await;
        started.aimed("node Ready", 15.0)
    };
    figures.extend(started.while_running(&["node", "start", NODE, "-o", "json"], milestone).await?);
    figures.extend(command(flotilla, DELETE, &["node", "delete", NODE, "-o", "json"]).await?);
    flotilla.run(&["delete", "-o", "json"])?;

    figures.extend(many(flotilla).await?);
    figures.extend(workers(flotilla, &figures).await?);
    figures.extend(command(flotilla, END, &["delete", "-o", "json"]).await?);
    Ok(figures)
}

async fn few(flotilla: &Flotilla, image: &str) -> Result<Vec<Figure>> {
    let watch = Watch::begin(flotilla, FEW);
    let milestones = async {
        let client = api::serves(flotilla).await;
        tokio::try_join!(
            async {
                api::nodes_are_ready(&client, &flotilla.nodes(3), Timestamp::UNIX_EPOCH).await;
                watch.aimed(READY, 9.0)
            },
            async {
                api::pods_run_on(&client, 3, image).await?;
                watch.aimed("a pod on every node", 12.0)
            },
        )
        .map(drop)
    };
    watch.while_running(&["start", "--nodes", "3", "-o", "json"], milestones).await
}

/// No pods of ours: it is about what nodes take by themselves.
async fn many(flotilla: &Flotilla) -> Result<Vec<Figure>> {
    let watch = Watch::begin(flotilla, MANY);
    let milestones = async {
        let client = api::serves(flotilla).await;
        api::nodes_are_ready(&client, &flotilla.nodes(10), Timestamp::UNIX_EPOCH).await;
        watch.now(READY)
    };
    watch.while_running(&["start", "--nodes", "10", "-o", "json"], milestones).await
}

/// What each of the workers of the larger cluster costs, on the average.
async fn workers(flotilla: &Flotilla, figures: &[Figure]) -> Result<Vec<Figure>> {
    tokio::time::sleep(SETTLED).await;
    let workers = &flotilla.nodes(10)[1..];
    let mut memory = 0.0;
    for worker in workers {
        memory += node::memory(&flotilla.cluster, worker)?.values().sum::<f64>();
    }
    let disk: f64 = workers.iter().map(|worker| node::disk(&flotilla.node_folder(worker))).sum();
    let ready = |part| {
        let figure = figures.iter().find(|figure| figure.part == part && figure.name == READY);
        figure.map(|figure| figure.value).context("both clusters became ready")
    };
    Ok(vec![
        Figure::seconds(WORKER, "Ready", (ready(MANY)? - ready(FEW)?) / 7.0).aim(1.5),
        Figure::megabytes(WORKER, "memory", memory / 9.0).aim(90.0),
        Figure::megabytes(WORKER, "disk", disk / 9.0).aim(5.0),
    ])
}
