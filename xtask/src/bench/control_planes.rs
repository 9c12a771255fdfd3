//! `cargo xtask bench control-planes`: a cluster of three control planes, one more of them, and how long a client waits
//! when the one dies that answers it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flotilla_engine::store::ClusterStore;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::command::Flotilla;
use super::figures::Figure;
use super::watch::{NEVER, Watch, command};
use super::{api, node, pod};

const START: &str = "start --control-planes 3";
const EACH: &str = "each control plane";
const ADD: &str = "node add --control-plane";
const DELETE: &str = "node delete of a control plane";
const SERVER_KILLED: &str = "the API server is killed";
const NODE_KILLED: &str = "the node is killed";
const BACK: &str = "node start of a killed one";
const STOP: &str = "stop";
const RESTART: &str = "start of a stopped cluster";
const END: &str = "delete";

const READY: &str = "all nodes Ready";
const ANSWER: &str = "the longest time without an answer";
const WRITE: &str = "the longest time without a write";
/// The control plane that comes and goes.
const NODE: &str = "bench-extra";
/// What PID 1 of a node is called.
const INIT: &str = "flotilla-init";
/// How long after the start they have settled.
const SETTLED: Duration = Duration::from_secs(10);
/// For how long clients ask, and when in that time somebody is killed.
const OBSERVED: Duration = Duration::from_secs(15);
const BEFORE: Duration = Duration::from_secs(2);
/// A healthy member on this host answers in less time.
const ATTEMPT: Duration = Duration::from_millis(300);

/// Does all of it, and leaves nothing.
pub(super) async fn run(flotilla: &Flotilla, _image: &str) -> Result<Vec<Figure>> {
    let mut figures = start(flotilla).await?;
    tokio::time::sleep(SETTLED).await;
    figures.extend(memory(flotilla)?);

    let client = soon("the API serves", api::serves(flotilla)).await?;
    let added = Watch::begin(flotilla, ADD);
    let milestone = async {
        api::nodes_are_ready(&client, &[NODE.to_owned()], Timestamp::UNIX_EPOCH).await;
        added.aimed("node Ready", 12.0)
    };
    let args = &["node", "add", "--control-plane", NODE, "-o", "json"];
    figures.extend(Box::pin(added.while_running(args, milestone)).await?);
    figures.extend(command(flotilla, DELETE, &["node", "delete", NODE, "-o", "json"]).await?);

    figures.extend(Box::pin(fail_over(flotilla, SERVER_KILLED, "kube-apiserver")).await?.0);
    // The server that was killed comes back by itself; three are to be well again.
    tokio::time::sleep(SETTLED).await;
    let (failed_over, killed) = Box::pin(fail_over(flotilla, NODE_KILLED, INIT)).await?;
    figures.extend(failed_over);
    figures.push(back(flotilla, &killed).await?);

    figures.extend(command(flotilla, STOP, &["stop", "-o", "json"]).await?);
    figures.extend(restart(flotilla).await?);
    figures.extend(command(flotilla, END, &["delete", "-o", "json"]).await?);
    Ok(figures)
}

async fn start(flotilla: &Flotilla) -> Result<Vec<Figure>> {
    let watch = Watch::begin(flotilla, START);
    let milestones = async {
        let client = api::serves(flotilla).await;
        watch.now("API serves")?;
        api::nodes_are_ready(&client, &flotilla.nodes(3), Timestamp::UNIX_EPOCH).await;
        watch.aimed(READY, 15.0)
    };
    Box::pin(watch.while_running(&["start", "--control-planes", "3", "-o", "json"], milestones)).await
}

async fn restart(flotilla: &Flotilla) -> Result<Vec<Figure>> {
    let (watch, stopped) = (Watch::begin(flotilla, RESTART), Timestamp::now());
    let milestones = async {
        let client = api::serves(flotilla).await;
        watch.now("API serves")?;
        api::nodes_are_ready(&client, &flotilla.nodes(3), stopped).await;
        watch.now(READY)
    };
    Box::pin(watch.while_running(&["start", "-o", "json"], milestones)).await
}

/// What each of the three takes, on the average.
fn memory(flotilla: &Flotilla) -> Result<Vec<Figure>> {
    let (mut memory, mut disk) = (0.0, 0.0);
    for name in flotilla.nodes(3) {
        memory += node::memory(&flotilla.cluster, &name)?.values().sum::<f64>();
        disk += node::disk(&flotilla.node_folder(&name));
    }
    Ok(vec![Figure::megabytes(EACH, "memory", memory / 3.0), Figure::megabytes(EACH, "disk", disk / 3.0)])
}

/// Kills a program of the control plane that has the virtual address, and finds out for how long no client is served by
/// way of that address. Gives the name of the control plane as well.
async fn fail_over(flotilla: &Flotilla, part: &'static str, program: &str) -> Result<(Vec<Figure>, String)> {
    let holder = holder(flotilla)?;
    let victims = node::processes(&flotilla.cluster, &holder, program)?;
    ensure!(!victims.is_empty(), "no {program} runs in {holder}");
    let kill = async {
        tokio::time::sleep(BEFORE).await;
        victims.into_iter().for_each(node::kill);
    };
    let reads = longest_gap(async |_| read(flotilla).await);
    let writes = longest_gap(async |attempt| write(flotilla, &format!("{program}-{attempt}")).await);
    let (answered, written, ()) = Box::pin(async { tokio::join!(reads, writes, kill) }).await;
    let figures = vec![
        Figure::seconds(part, ANSWER, answered.as_secs_f64()).aim(2.0),
        Figure::seconds(part, WRITE, written.as_secs_f64()),
    ];
    Ok((figures, holder))
}

/// Tries again and again, each time without much patience. Gives the longest time between two successes; an answer that was
/// on its way when somebody died is not taken for his successor's.
async fn longest_gap(attempt: impl AsyncFn(u32) -> Option<()>) -> Duration {
    let (began, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    for number in 0.. {
        if let Ok(Some(())) = tokio::time::timeout(ATTEMPT, attempt(number)).await {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        if began.elapsed() > OBSERVED {
            break;
        }
        tokio::time::sleep(api::LOOK).await;
    }
    longest.max(last.elapsed())
}

/// A question on a connection of its own, as `kubectl` asks.
async fn read(flotilla: &Flotilla) -> Option<()> {
    let client = api::client(flotilla).await?;
    client.apiserver_version().await.ok().map(drop)
}

async fn write(flotilla: &Flotilla, name: &str) -> Option<()> {
    let maps: Api<ConfigMap> = Api::namespaced(api::client(flotilla).await?, pod::NAMESPACE);
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await.ok().map(drop)
}

/// The control plane that has the virtual address.
fn holder(flotilla: &Flotilla) -> Result<String> {
    let cluster = ClusterStore::new(&flotilla.home).get(&flotilla.cluster)?;
    for name in flotilla.nodes(3) {
        for init in node::processes(&flotilla.cluster, &name, INIT)? {
            if node::has_address(init, cluster.virtual_ip())? {
                return Ok(name);
            }
        }
    }
    bail!("no control plane has the address {}", cluster.virtual_ip())
}

/// Starts the one that was killed.
async fn back(flotilla: &Flotilla, node: &str) -> Result<Figure> {
    let (flotilla, node) = (flotilla.clone(), node.to_owned());
    let start = move || flotilla.run(&["node", "start", &node, "-o", "json"]);
    let ran = tokio::task::spawn_blocking(start).await??;
    Ok(Figure::seconds(BACK, "returns", ran.seconds))
}

async fn soon<T>(what: &str, awaited: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(NEVER, awaited).await.with_context(|| format!("{what}: not within {NEVER:?}"))
}
