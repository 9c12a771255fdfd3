//! `flotilla start`: creates a cluster, or turns on and repairs one that exists.

mod copied;
mod new;
mod typed;
mod wanted;

use std::time::Duration;

use flotilla_core::{Changed, Cluster, Finding, Power, Severity};
use flotilla_engine::EngineError;
use flotilla_engine::converge::{Engine, Wait};
use flotilla_engine::plan::{self, Observed};
use flotilla_engine::store::{Locked, Peeked, WhenBusy};
use flotilla_spec::{ClusterName, ClusterSpec, KubernetesVersion, NodeName, NodeSpec, WantedPower};
use serde::{Deserialize, Serialize};

use crate::admission::{self, ranges};
use crate::change::FileError;
use crate::file::FileText;
use crate::{Context, OpError, bring_up, bundles};

pub(crate) use new::check as check_new;
pub use typed::{GivenNetwork, Sizes, Typed};

use copied::Copied;
use wanted::Asked;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    pub wanted: Wanted,
    pub wait: Wait,
    /// Whatever the host checks find.
    pub force: bool,
    pub busy: WhenBusy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    Typed(Box<Typed>),
    File(FileText),
}

/// A cluster that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    pub cluster: ClusterName,
    pub changed: Changed,
    pub kubernetes_version: KubernetesVersion,
    /// Where the API answers.
    pub server: String,
    /// The primary node's address.
    pub ip: String,
    /// Nodes whose new size is saved and takes effect when they boot.
    pub sizes_pending: Vec<NodeName>,
}

/// What a start would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Steps {
    pub cluster: ClusterName,
    pub kubernetes_version: KubernetesVersion,
    pub steps: Vec<NamedStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedStep {
    pub name: String,
    pub title: String,
}

/// A start that was checked. Nothing has been changed, and nothing is locked: bundles are built first.
#[derive(Debug)]
pub struct Prepared<'a> {
    cx: Context<'a>,
    request: &'a Request,
    asked: Asked<'a>,
    known: Option<Peeked>,
    spec: ClusterSpec,
    /// Of a new cluster.
    copied: Copied,
}

/// What a start would do, for `--dry-run`.
pub async fn plan(cx: &Context<'_>, request: &Request) -> Result<Steps, OpError> {
    let engine = cx.engine(&request.cluster);
    let Prepared { known, spec, .. } = check(cx, &engine, request, Report::Nothing).await?;
    let kubernetes_version = spec.kubernetes_version.clone();
    let conditions = &request.wait.conditions;
    let plan = match known {
        Some(known) => engine.plan_start(&Cluster::new(spec, known.cluster.allocations), conditions).await?,
        None => {
            plan::start(&new::allocated(cx, spec, String::new()).await?, &Observed::nothing(), conditions)
        }
    };
    let steps = plan.steps.into_iter().map(|step| NamedStep { name: step.name, title: step.title });
    Ok(Steps { cluster: request.cluster.clone(), kubernetes_version, steps: steps.collect() })
}

/// Checks everything that was asked for before anything is looked at, and that before anything is changed.
pub async fn prepare<'a>(cx: &Context<'a>, request: &'a Request) -> Result<Prepared<'a>, OpError> {
    check(cx, &cx.engine(&request.cluster), request, Report::Warnings).await
}

/// Whether warnings about the host are of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    Warnings,
    Nothing,
}

async fn check<'a>(
    cx: &Context<'a>,
    engine: &Engine<'_>,
    request: &'a Request,
    report: Report,
) -> Result<Prepared<'a>, OpError> {
    let name = &request.cluster;
    let asked = Asked::of(cx, &request.wanted)?;
    let known = cx.store.peek(name);
    let mut problems = asked.problems(cx);
    if let Ok(Some(known)) = &known {
        problems = known.cluster.spec.new_problems(problems, &cx.host);
    }
    problems.extend(admission::version_problem(cx, asked.spec())?);
    admission::refuse(problems, asked.file())?;
    cx.require_root().await?;
    let known = known?;
    let copied = if known.is_none() {
        Copied::read(cx, asked.spec(), asked.directory(), asked.file())?
    } else {
        Copied::default()
    };
    let spec = if let Some(known) = &known {
        let spec = asked.merged_into(cx, engine, &known.cluster).await?;
        if let Some(sizes) = asked.sizes() {
            report_sizes(cx, sizes, &known.cluster.spec, &spec);
        }
        spec
    } else {
        let mut spec = asked.spec().clone();
        spec.hand_over_primary(&[]);
        if asked.leaves_services_open() {
            ranges::choose_services(cx, &mut spec).await?;
        }
        spec
    };
    if spec.primary().power == WantedPower::Stopped {
        return Err(FileError::NothingToStart { cluster: name.clone() }.into());
    }
    let warns = known.is_none() && report == Report::Warnings;
    check_host(cx, &spec.kubernetes_version, request.force, warns).await?;
    match &known {
        Some(known) => ranges::check(engine, &known.cluster, request.force).await?,
        None => check_new(cx, &spec, asked.file()).await?,
    }
    Ok(Prepared { cx: *cx, request, asked, known, spec, copied })
}

impl Prepared<'_> {
    /// Reports what building the cluster's bundles takes if they do not exist. Gives the time: a user may want to be
    /// asked.
    pub fn announce_build(&self) -> Result<Duration, OpError> {
        bundles::announce(&self.cx, &self.spec)
    }

    pub async fn run(self) -> Result<Started, OpError> {
        let Self { cx, request, asked, known, spec, copied } = self;
        let name = &request.cluster;
        admission::warn(&cx, &spec);
        let bundles = bundles::ensure(&cx, &spec, known.is_none())?;
        let locked = cx.lock(name, "flotilla start", request.busy)?;
        // Another command may have changed it while we waited, and its machines.
        let engine = cx.engine(name);
        let found = match known {
            // What was checked is not what a new cluster needs.
            Some(known) => Some(locked.refresh_existing(known)?),
            None => locked.refresh(None)?,
        };
        let (mut cluster, sizes_pending) = if let Some(known) = found {
            update(&cx, &engine, &locked, &asked, known).await?
        } else {
            let made = new::create(&cx, &locked, spec, &bundles, copied, asked.file()).await;
            if made.is_err() {
                // Else the lock would be all there is of it.
                locked.remove()?;
            }
            (made?, Vec::new())
        };
        let changed = bring_up::start(&engine, &locked, &mut cluster, &request.wait).await?;
        Ok(Started {
            cluster: name.clone(),
            changed,
            kubernetes_version: cluster.spec.kubernetes_version.clone(),
            server: cx.fleet.api_url(&cluster).await,
            ip: cluster.primary().map(|node| node.address.to_string()).unwrap_or_default(),
            sizes_pending,
        })
    }
}

/// Saves what was asked for over a cluster that exists. Gives the nodes whose new size has to wait as well.
async fn update(
    cx: &Context<'_>,
    engine: &Engine<'_>,
    locked: &Locked,
    asked: &Asked<'_>,
    known: Cluster,
) -> Result<(Cluster, Vec<NodeName>), OpError> {
    engine.finish_stop(&known).await?;
    let spec = asked.merged_into(cx, engine, &known).await?;
    let before = known.spec;
    let mut cluster = Cluster::new(spec, known.allocations);
    let pending = sizes_that_wait(engine, &before, &cluster).await?;
    if asked.file().is_some() {
        // A node whose removal was killed stays if the file has it.
        let is_listed = |name: &NodeName| asked.spec().nodes.iter().any(|node| node.name == *name);
        cluster.allocations.leaving.retain(|name| !is_listed(name));
    }
    locked.save(&cluster)?;
    Ok((cluster, pending))
}

/// Findings that change nothing about how a cluster is made: `doctor` shows them, `start` does not repeat them.
const ONLY_DOCTOR: [&str; 1] = ["HOST_NO_OOM_SCORES"];

/// Only a fatal finding stops it. Warnings are reported once, when the cluster is made.
async fn check_host(
    cx: &Context<'_>,
    version: &KubernetesVersion,
    force: bool,
    warns: bool,
) -> Result<(), OpError> {
    let findings = admission::examine(cx, version).await;
    let is_news = |finding: &&Finding| {
        warns && finding.severity == Severity::Warning && !ONLY_DOCTOR.contains(&finding.code)
    };
    for finding in findings.iter().filter(is_news) {
        cx.warn(format!("{} ({})", finding.text, finding.cure));
    }
    let fatal = admission::fatal(findings);
    if !fatal.is_empty() && !force {
        return Err(EngineError::Host(fatal).into());
    }
    Ok(())
}

/// Which nodes get the size that was typed: those that have their own keep it. Nothing if all have it, as when the command
/// is repeated.
fn report_sizes(cx: &Context<'_>, asked: Sizes, before: &ClusterSpec, after: &ClusterSpec) {
    let has_own = |node: &NodeSpec| {
        asked.cpus.is_some_and(|cpus| cpus != node.cpus)
            || asked.memory.is_some_and(|memory| memory != node.memory)
            || asked.disk.is_some_and(|disk| Some(disk) != node.disk)
    };
    let changed: Vec<_> = resized(before, after).map(ToString::to_string).collect();
    let text = match changed.as_slice() {
        [] if !after.nodes.iter().any(has_own) => return,
        [] => "no node changes its size: use `flotilla node update` for nodes with their own size".to_owned(),
        names if names.len() == after.nodes.len() => return,
        [name] => format!("{name} changes its size; the other nodes have their own"),
        names => format!("{} change their size; the other nodes have their own", names.join(", ")),
    };
    cx.note(text);
}

/// The nodes that run with the size that they had: they get their new one when they boot.
async fn sizes_that_wait(
    engine: &Engine<'_>,
    before: &ClusterSpec,
    after: &Cluster,
) -> Result<Vec<NodeName>, OpError> {
    let machines = engine.machines(after).await?;
    let is_on = |name: &&NodeName| machines.get(*name).is_some_and(|it| it.state().power == Power::On);
    Ok(resized(before, &after.spec).filter(is_on).cloned().collect())
}

fn resized<'a>(before: &'a ClusterSpec, after: &'a ClusterSpec) -> impl Iterator<Item = &'a NodeName> {
    let size = |node: &NodeSpec| (node.cpus, node.memory, node.disk);
    let pairs = before.nodes.iter().zip(&after.nodes);
    pairs.filter(move |(before, after)| size(before) != size(after)).map(|(_, node)| &node.name)
}
