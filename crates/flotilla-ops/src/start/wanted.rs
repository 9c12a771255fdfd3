//! What a cluster is started as: what was typed, or a file.

use std::path::Path;

use flotilla_core::Cluster;
use flotilla_engine::converge::Engine;
use flotilla_spec::error::SpecError;
use flotilla_spec::{Change, ClusterFile, ClusterSpec, WantedPower};

use super::{Sizes, Typed, Wanted};
use crate::change::{FileError, Plan};
use crate::{Context, OpError, admission};

/// What was asked for, read and understood.
#[derive(Debug)]
pub(super) enum Asked<'a> {
    Typed(&'a Typed),
    File {
        file: Box<ClusterFile>,
        /// The cluster that it makes where there is none.
        spec: Box<ClusterSpec>,
        directory: &'a Path,
    },
}

impl<'a> Asked<'a> {
    pub(super) fn of(cx: &Context<'_>, wanted: &'a Wanted) -> Result<Self, OpError> {
        match wanted {
            Wanted::Typed(typed) => Ok(Self::Typed(typed)),
            Wanted::File(text) => {
                let newest = cx.bundles.default_version();
                let file = text.parse(&newest, &cx.host)?;
                let spec = Box::new(file.expanded(&newest));
                Ok(Self::File { file: Box::new(file), spec, directory: &text.directory })
            }
        }
    }

    /// The cluster, if there is none yet.
    pub(super) fn spec(&self) -> &ClusterSpec {
        match self {
            Self::Typed(typed) => &typed.spec,
            Self::File { spec, .. } => spec,
        }
    }

    pub(super) fn problems(&self, cx: &Context<'_>) -> Vec<SpecError> {
        match self {
            Self::Typed(typed) => typed.spec.check(&cx.host),
            Self::File { file, spec, .. } => file.check(spec, &cx.host),
        }
    }

    /// The spec of a cluster that exists, with what may change and was asked for, and what is to run.
    pub(super) async fn merged_into(
        &self,
        cx: &Context<'_>,
        engine: &Engine<'_>,
        known: &Cluster,
    ) -> Result<ClusterSpec, OpError> {
        match self {
            Self::Typed(typed) => {
                let mut spec = typed.merged_into(known)?;
                for node in &mut spec.nodes {
                    node.power = WantedPower::Running;
                }
                // What was typed was checked for a cluster of plain nodes.
                let problems = if typed.sizes_given() { spec.check(&cx.host) } else { Vec::new() };
                admission::refuse(known.spec.new_problems(problems, &cx.host), None)?;
                Ok(spec)
            }
            Self::File { file, .. } => {
                let mut spec = started(known, &Plan::new(cx, file, Some(known))?)?;
                // All that is certain about control planes that are off is that the primary one is a member of etcd.
                if engine.control_plane_is_on(known).await? {
                    spec.hand_over_primary(&[]);
                }
                Ok(spec)
            }
        }
    }

    /// Whether a new cluster may have any range for its services.
    pub(super) fn leaves_services_open(&self) -> bool {
        match self {
            Self::Typed(typed) => typed.network.service_subnet.is_none(),
            Self::File { file, .. } => file.leaves_services_open(),
        }
    }

    /// The file that has it, if it was not typed.
    pub(super) fn file(&self) -> Option<&ClusterFile> {
        match self {
            Self::Typed(_) => None,
            Self::File { file, .. } => Some(file),
        }
    }

    /// Where files are looked for that the spec names.
    pub(super) fn directory(&self) -> &Path {
        match self {
            Self::Typed(_) => Path::new(""),
            Self::File { directory, .. } => directory,
        }
    }

    /// The sizes that were typed, if any was.
    pub(super) fn sizes(&self) -> Option<Sizes> {
        match self {
            Self::Typed(typed) => Some(typed.sizes).filter(|_| typed.sizes_given()),
            Self::File { .. } => None,
        }
    }
}

/// A cluster whose nodes only have to be started. Everything else is for `apply`, which asks first.
fn started(known: &Cluster, plan: &Plan) -> Result<ClusterSpec, OpError> {
    let other = plan.changes.iter().filter(|change| !matches!(change, Change::Start { .. }));
    let other: Vec<_> = other.map(ToString::to_string).collect();
    if !other.is_empty() {
        return Err(FileError::Differs { cluster: known.name().clone(), changes: other }.into());
    }
    let mut spec = known.spec.clone();
    // In the order that is known: it says which control plane is primary.
    for node in &mut spec.nodes {
        if let Some(wanted) = plan.wanted.nodes.iter().find(|wanted| wanted.name == node.name) {
            node.clone_from(wanted);
        }
    }
    Ok(spec)
}
