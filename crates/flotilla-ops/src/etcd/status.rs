//! `flotilla etcd status`: what the members of etcd say of each other and of themselves.

use flotilla_core::{Cluster, Member, MemberStatus};
use flotilla_engine::EngineError;
use flotilla_engine::quorum::{self, Quorum};
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use super::ControlPlane;
use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub cluster: Cluster,
    /// In the order of the cluster's nodes; those that no node has come last.
    pub members: Members,
}

/// The members, as one of them sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members(pub Vec<MemberStatus>);

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Status, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let vias = super::members_that_are_on(cx, &cluster).await?;
    let mut members = Members::ask(cx, &cluster, &vias).await?;
    let place = |status: &MemberStatus| {
        cluster.nodes().position(|node| status.member.is_of(&node)).unwrap_or(usize::MAX)
    };
    members.0.sort_by_key(place);
    Ok(Status { cluster, members })
}

impl Members {
    /// Asked of these: see [`quorum::ask`].
    pub(crate) async fn ask(
        cx: &Context<'_>,
        cluster: &Cluster,
        vias: &[ControlPlane],
    ) -> Result<Self, EngineError> {
        let asked = vias
            .iter()
            .map(async |via| cx.bootstrapper.member_status(cluster, via.machine.as_ref()).await.map(Self));
        let none = || cx.store.no_cluster(cluster.name());
        let failed = |failure: Option<_>| failure.map_or_else(none, EngineError::from);
        quorum::ask(asked, Self::quorum).await.map_err(failed)
    }

    pub fn quorum(&self) -> Quorum {
        let members: Vec<_> = self.0.iter().map(|status| status.member.clone()).collect();
        Quorum::of(&members)
    }

    /// Out of what several members say: the view of one that sees a majority, or of the one to which most answer.
    pub(crate) fn best(views: Vec<Vec<MemberStatus>>) -> Option<Self> {
        let views = views.into_iter().map(Self);
        views.rev().max_by_key(|view| (view.quorum().holds(), view.answering()))
    }

    /// The members that have a vote.
    pub(crate) fn voters(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().map(|status| &status.member).filter(|member| !member.learner)
    }

    /// How many of those that have a vote answer, whether they are healthy or not.
    pub fn answering(&self) -> usize {
        self.voters().filter(|member| member.answers).count()
    }

    /// Writes are possible: there is a quorum, and no alarm.
    pub fn is_well(&self) -> bool {
        self.quorum().holds() && self.0.iter().all(|status| status.alarms.is_empty())
    }

    /// How far a control plane's own member knows what was agreed on; none if it does not answer.
    pub(crate) fn agreed(&self, control_plane: &ControlPlane) -> Option<u64> {
        self.0.iter().find(|status| status.member.is_of(&control_plane.node))?.agreed
    }
}

#[cfg(test)]
mod tests {
    use flotilla_testkit::fake::member_status as member;

    use super::*;

    #[test]
    fn an_etcd_with_an_alarm_or_without_a_quorum_is_not_well() {
        let well = || member(1, true, true, &[]);
        assert!(Members(vec![well(), well(), member(3, false, false, &[])]).is_well());
        assert!(!Members(vec![well(), well(), member(3, true, true, &["NOSPACE"])]).is_well());
        assert!(!Members(vec![well(), member(2, false, false, &[]), member(3, true, false, &[])]).is_well());
    }

    #[test]
    fn of_several_views_the_one_with_a_majority_is_believed() {
        let cut_off =
            || vec![member(1, true, false, &[]), member(2, false, false, &[]), member(3, false, false, &[])];
        let others =
            || vec![member(1, false, false, &[]), member(2, true, true, &[]), member(3, true, true, &[])];
        let both =
            vec![member(1, true, false, &[]), member(2, true, false, &[]), member(3, false, false, &[])];
        let quorum = |views| Members::best(views).unwrap().quorum();
        assert_eq!(quorum(vec![cut_off(), others()]), Quorum { total: 3, up: 2 });
        assert_eq!(Members::best(vec![cut_off(), both]).unwrap().answering(), 2);
        assert!(Members::best(Vec::new()).is_none());
    }
}
