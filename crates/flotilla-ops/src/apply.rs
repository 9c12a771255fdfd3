//! `flotilla apply`: changes a cluster to match a file. `flotilla diff` shows what would change.

use std::time::Duration;

use flotilla_core::{Cluster, Drain};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::ClusterFile;
use serde::{Deserialize, Serialize};

use crate::admission::ranges;
use crate::change::{self, Plan};
use crate::file::FileText;
use crate::{Context, OpError, admission, start};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub file: FileText,
    pub drain: Drain,
    /// How long to wait until the cluster works.
    pub wait_limit: Duration,
    pub busy: WhenBusy,
}

/// What a file would do.
#[derive(Debug)]
pub enum Prepared<'a> {
    /// There is no such cluster.
    New(Box<New<'a>>),
    /// With the cluster's lock.
    Change(Box<change::Prepared<'a>>),
}

impl Prepared<'_> {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::New(new) => &new.plan,
            Self::Change(prepared) => &prepared.plan,
        }
    }
}

/// A cluster that `start` makes of the file.
#[derive(Debug)]
pub struct New<'a> {
    plan: Plan,
    cx: Context<'a>,
    request: start::Request,
}

impl New<'_> {
    /// The start, once a user has agreed: it looks at the host again, and may have a bundle to build.
    pub async fn start(&self) -> Result<start::Prepared<'_>, OpError> {
        start::prepare(&self.cx, &self.request).await
    }
}

/// What a file would change. Reports only what cannot be understood and what the host cannot give, not whether all of it
/// can be done.
pub async fn diff(cx: &Context<'_>, file: &FileText) -> Result<Plan, OpError> {
    let file = file.parse(&cx.bundles.default_version(), &cx.host)?;
    cx.require_root().await?;
    let Some(cluster) = cx.store.load(&file.name)? else { return new(cx, &file).await };
    let plan = Plan::new(cx, &file, Some(&cluster))?;
    plan.check(cx, &cluster).await?;
    Ok(plan)
}

/// What [`prepare`] would give, without the lock: for `--dry-run`.
pub async fn plan(cx: &Context<'_>, request: &Request) -> Result<Plan, OpError> {
    let file = request.file.parse(&cx.bundles.default_version(), &cx.host)?;
    cx.require_root().await?;
    match cx.store.load(&file.name)? {
        Some(cluster) => checked(cx, &file, &cluster, request).await,
        None => new(cx, &file).await,
    }
}

/// Checks all of it, and holds the lock while a user thinks.
pub async fn prepare<'a>(cx: &Context<'a>, request: &Request) -> Result<Prepared<'a>, OpError> {
    let file = request.file.parse(&cx.bundles.default_version(), &cx.host)?;
    cx.require_root().await?;
    let Some(peeked) = cx.store.peek(&file.name)? else {
        let plan = new(cx, &file).await?;
        let request = start::Request {
            cluster: file.name,
            wanted: start::Wanted::File(request.file.clone()),
            wait: Wait::for_cluster(request.wait_limit),
            force: false,
            busy: request.busy,
        };
        return Ok(Prepared::New(Box::new(New { plan, cx: *cx, request })));
    };
    let locked = cx.lock(&file.name, "flotilla apply", request.busy)?;
    let cluster = locked.refresh_existing(peeked)?;
    let plan = checked(cx, &file, &cluster, request).await?;
    admission::warn(cx, &plan.wanted);
    let Request { drain, wait_limit, .. } = *request;
    let prepared = change::Prepared { plan, cx: *cx, locked, cluster, drain, wait_limit, only: None };
    Ok(Prepared::Change(Box::new(prepared)))
}

async fn new(cx: &Context<'_>, file: &ClusterFile) -> Result<Plan, OpError> {
    let mut plan = Plan::new(cx, file, None)?;
    if file.leaves_services_open() {
        ranges::choose_services(cx, &mut plan.wanted).await?;
    }
    start::check_new(cx, &plan.wanted, Some(file)).await?;
    Ok(plan)
}

async fn checked(
    cx: &Context<'_>,
    file: &ClusterFile,
    cluster: &Cluster,
    request: &Request,
) -> Result<Plan, OpError> {
    let plan = Plan::new(cx, file, Some(cluster))?;
    plan.feasible(cx, cluster).await?;
    change::check(&cx.engine(cluster.name()), cluster, &plan, request.drain.force).await?;
    Ok(plan)
}
