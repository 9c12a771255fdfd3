//! `flotilla etcd status`

use flotilla_engine::explain::profile_flag;
use flotilla_engine::quorum::{self, Quorum};
use flotilla_engine::{Cluster, EngineError};
use flotilla_kubeadm::etcd::{self, MemberStatus};
use serde_json::{Value, json};

use super::ControlPlane;
use crate::cluster::Cx;
use crate::failure::Failure;
use crate::screen::table;

pub(super) fn run(cx: &Cx) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    let mut status = Status::ask(cx, &super::members_that_are_on(cx, &cluster)?)?;
    // As all other lists have them; whom the cluster does not know comes last.
    let place = |status: &MemberStatus| {
        cluster.nodes().position(|node| status.member.is_of(&node)).unwrap_or(usize::MAX)
    };
    status.0.sort_by_key(place);
    if cx.screen.is_json() {
        cx.screen.json(&status.to_json(&cluster));
    } else {
        cx.screen.line(&status.to_text(&cluster));
    }
    Ok(())
}

/// What the members of etcd say of each other and of themselves.
pub(crate) struct Status(Vec<MemberStatus>);

impl Status {
    /// Asked of these: see [`quorum::ask`].
    pub(crate) fn ask(cx: &Cx, speakers: &[ControlPlane]) -> Result<Self, Failure> {
        let asked =
            speakers.iter().map(async |speaker| etcd::status(speaker.machine.as_ref()).await.map(Self));
        let none = || EngineError::NoCluster(cx.name.clone());
        let failed = |failure: Option<_>| Failure::from(failure.map_or_else(none, EngineError::from));
        cx.wait(quorum::ask(asked, Self::quorum)).map_err(failed)
    }

    pub(crate) fn quorum(&self) -> Quorum {
        let members: Vec<_> = self.0.iter().map(|status| status.member.clone()).collect();
        Quorum::of(&members)
    }

    /// How far a control plane's own member knows what was agreed on; none if it does not answer.
    pub(crate) fn agreed(&self, control_plane: &ControlPlane) -> Option<u64> {
        self.0.iter().find(|status| status.member.is_of(&control_plane.node))?.agreed
    }

    fn to_json(&self, cluster: &Cluster) -> Value {
        let quorum = self.quorum();
        let members = self.0.iter().map(|status| {
            json!({
                "name": name(cluster, status),
                // JSON's numbers are too small for it.
                "id": format!("{:x}", status.member.id),
                "address": status.member.address,
                "up": status.member.up,
                "leader": status.is_leader,
                "learner": status.member.learner,
                "version": status.version,
                "dbSize": status.size,
                "complaints": status.complaints,
            })
        });
        json!({
            "members": members.collect::<Vec<_>>(),
            "total": quorum.total,
            "up": quorum.up,
            "needed": quorum.needed(),
            "majority": quorum.holds(),
            "margin": quorum.margin(),
        })
    }

    fn to_text(&self, cluster: &Cluster) -> String {
        let rows = self.0.iter().map(|status| {
            vec![
                name(cluster, status),
                status.member.address.to_string(),
                if status.member.up { "up" } else { "down" }.to_owned(),
                role(status).to_owned(),
                status.size.map(megabytes).unwrap_or_default(),
                status.version.clone().unwrap_or_default(),
            ]
        });
        let mut lines = vec![table(&["NAME", "ADDRESS", "STATUS", "ROLE", "DB SIZE", "VERSION"], rows)];
        lines.push(String::new());
        lines.push(summary(self.quorum()));
        for status in &self.0 {
            let name = name(cluster, status);
            lines.extend(status.complaints.iter().map(|complaint| format!("{name}: {complaint}")));
            if !status.member.up && !cluster.nodes().any(|node| status.member.is_of(&node)) {
                let flag = profile_flag(cluster.name());
                lines.push(format!(
                    "{name} is no node of the cluster: `flotilla start{flag}` takes it out of etcd"
                ));
            }
        }
        lines.join("\n")
    }
}

/// What the numbers mean.
pub(super) fn summary(quorum: Quorum) -> String {
    let Quorum { total, up } = quorum;
    let are = if up == 1 { "is" } else { "are" };
    let members = if total == 1 { "member" } else { "members" };
    match quorum.margin() {
        _ if !quorum.holds() => format!(
            "{up} of {total} {members} {are} up, and {} are needed: the API does not answer",
            quorum.needed()
        ),
        0 => format!("{up} of {total} {members} {are} up; none may fail"),
        margin => format!("{up} of {total} {members} {are} up; {margin} may fail"),
    }
}

/// The node's; a member that was only announced has none of its own.
fn name(cluster: &Cluster, status: &MemberStatus) -> String {
    let node = cluster.nodes().find(|node| status.member.is_of(node));
    node.map_or_else(|| status.member.name.clone(), |node| node.spec.name.to_string())
}

fn role(status: &MemberStatus) -> &'static str {
    match &status.member {
        member if !member.up => "",
        _ if status.is_leader => "leader",
        member if member.learner => "learner",
        _ => "follower",
    }
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_how_many_may_fail() {
        let tell = |total, up| summary(Quorum { total, up });
        assert_eq!(tell(1, 1), "1 of 1 member is up; none may fail");
        assert_eq!(tell(3, 3), "3 of 3 members are up; 1 may fail");
        assert_eq!(tell(3, 2), "2 of 3 members are up; none may fail");
        assert_eq!(tell(3, 1), "1 of 3 members is up, and 2 are needed: the API does not answer");
    }

    #[test]
    fn sizes_are_millions_of_bytes() {
        assert_eq!(megabytes(3_456_789), "3.4 MB");
        assert_eq!(megabytes(20_480), "0.0 MB");
    }
}
