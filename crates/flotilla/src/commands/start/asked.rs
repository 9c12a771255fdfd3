//! What a cluster is started as: what was typed, or a file.

use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::error::SpecError;
use flotilla_spec::{Change, ClusterFile, ClusterSpec, HostSize, WantedPower};

use super::request::Wanted;
use crate::cluster::{Cx, this_host};
use crate::commands::file::{FileError, Plan};

pub(super) enum Asked<'a> {
    Typed(Wanted),
    /// With the cluster that it makes where there is none.
    File(&'a ClusterFile, ClusterSpec),
}

impl Asked<'_> {
    /// The cluster, if there is none yet.
    pub(super) fn spec(&self) -> &ClusterSpec {
        match self {
            Self::Typed(wanted) => &wanted.spec,
            Self::File(_, spec) => spec,
        }
    }

    pub(super) fn problems(&self, host: &HostSize) -> Vec<SpecError> {
        match self {
            Self::Typed(wanted) => wanted.spec.check(host),
            Self::File(file, spec) => file.check(spec, host),
        }
    }

    /// The spec of a cluster that is there, with what may change and was asked for, and what is to run.
    pub(super) fn merged_into(&self, cx: &Cx, known: &Cluster) -> Result<ClusterSpec, OpError> {
        match self {
            Self::Typed(wanted) => {
                let mut spec = wanted.merged_into(known)?;
                for node in &mut spec.nodes {
                    node.power = WantedPower::Running;
                }
                // What was typed was checked for a cluster of plain nodes.
                let problems = if wanted.sizes_given() { spec.check(&this_host()) } else { Vec::new() };
                let problems = known.spec.new_problems(problems, &this_host());
                if problems.is_empty() { Ok(spec) } else { Err(EngineError::Spec(problems).into()) }
            }
            Self::File(file, _) => {
                let mut spec = started(known, &Plan::new(cx, file, Some(known))?)?;
                // All that is certain about control planes that are off is that the primary one is a member of etcd.
                if cx.wait(cx.engine().control_plane_is_on(known))? {
                    spec.hand_over_primary(&[]);
                }
                Ok(spec)
            }
        }
    }

    /// Where it stands, if it is not typed.
    pub(super) fn file(&self) -> Option<&ClusterFile> {
        match self {
            Self::Typed(_) => None,
            Self::File(file, _) => Some(file),
        }
    }

    pub(super) fn sizes_given(&self) -> bool {
        matches!(self, Self::Typed(wanted) if wanted.sizes_given())
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
    // In the order that is known: it says who is primary.
    for node in &mut spec.nodes {
        if let Some(wanted) = plan.wanted.nodes.iter().find(|wanted| wanted.name == node.name) {
            node.clone_from(wanted);
        }
    }
    Ok(spec)
}
