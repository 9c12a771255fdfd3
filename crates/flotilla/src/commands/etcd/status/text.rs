//! What people read of etcd's members.

use flotilla_core::explain::profile_flag;
use flotilla_core::{Cluster, MemberStatus};
use flotilla_engine::quorum::Quorum;
use flotilla_ops::etcd::status::{Members, Status};

use crate::screen::table;

/// Every alarm, with the member that has raised it and what it means.
pub(in crate::commands) fn alarms(cluster: &Cluster, members: &Members) -> Vec<String> {
    let of = |status: &MemberStatus| {
        let name = name(cluster, status);
        status.alarms.iter().map(|alarm| format!("{name}: {}", meaning(alarm))).collect::<Vec<_>>()
    };
    members.0.iter().flat_map(of).collect()
}

pub(super) fn to_text(Status { cluster, members: seen }: &Status) -> String {
    let rows = seen.0.iter().map(|status| {
        vec![
            name(cluster, status),
            status.member.address.to_string(),
            health(status),
            role(status).to_owned(),
            status.size.map(megabytes).unwrap_or_default(),
            status.version.clone().unwrap_or_default(),
        ]
    });
    let mut lines = vec![table(&["NAME", "ADDRESS", "STATUS", "ROLE", "DB SIZE", "VERSION"], rows)];
    lines.push(String::new());
    lines.push(summary(seen.quorum(), seen.answering()));
    lines.extend(alarms(cluster, seen));
    for status in &seen.0 {
        let name = name(cluster, status);
        lines.extend(status.complaints.iter().map(|complaint| format!("{name}: {complaint}")));
        if !status.member.answers && !cluster.nodes().any(|node| status.member.is_of(&node)) {
            let flag = profile_flag(cluster.name());
            lines.push(format!(
                "{name} is no node of the cluster: `flotilla start{flag}` takes it out of etcd"
            ));
        }
    }
    lines.join("\n")
}

/// What the numbers mean.
fn summary(quorum: Quorum, answering: usize) -> String {
    let Quorum { total, up } = quorum;
    let are = if up == 1 { "is" } else { "are" };
    let members = if total == 1 { "member" } else { "members" };
    let needed = quorum.needed();
    match quorum.margin() {
        _ if !quorum.holds() && answering > up => {
            let answer = if answering == 1 { "answers" } else { "answer" };
            format!(
                "{answering} of {total} {members} {answer}, {up} {are} healthy, and {needed} are needed: etcd has no quorum"
            )
        }
        _ if !quorum.holds() => {
            format!("{up} of {total} {members} {are} up, and {needed} are needed: the API does not answer")
        }
        0 => format!("{up} of {total} {members} {are} up; none may fail"),
        margin => format!("{up} of {total} {members} {are} up; {margin} may fail"),
    }
}

/// One word, or the reason why it is not healthy.
fn health(status: &MemberStatus) -> String {
    match status {
        _ if !status.alarms.is_empty() => status.alarms.join(","),
        status if !status.member.answers => "down".to_owned(),
        status if status.is_leaderless => "no leader".to_owned(),
        _ => "up".to_owned(),
    }
}

/// What an alarm means for the cluster.
fn meaning(alarm: &str) -> String {
    let means = match alarm {
        "NOSPACE" => {
            "its database has reached its quota; no member accepts writes until space is freed and the alarm disarmed"
        }
        "CORRUPT" => {
            "its data differs from the others'; no member accepts writes until it is removed and the alarm disarmed"
        }
        _ => "no member accepts writes until it is disarmed",
    };
    format!("alarm {alarm}: {means}")
}

/// The node's; a member that was only announced has none of its own.
pub(super) fn name(cluster: &Cluster, status: &MemberStatus) -> String {
    let node = cluster.nodes().find(|node| status.member.is_of(node));
    node.map_or_else(|| status.member.name.clone(), |node| node.spec.name.to_string())
}

fn role(status: &MemberStatus) -> &'static str {
    match &status.member {
        member if !member.answers || status.is_leaderless => "",
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
    use flotilla_testkit::fake::member_status as member;

    use super::*;

    #[test]
    fn the_summary_tells_how_many_may_fail() {
        let tell = |total, up| summary(Quorum { total, up }, up);
        assert_eq!(tell(1, 1), "1 of 1 member is up; none may fail");
        assert_eq!(tell(3, 3), "3 of 3 members are up; 1 may fail");
        assert_eq!(tell(3, 2), "2 of 3 members are up; none may fail");
        assert_eq!(tell(3, 1), "1 of 3 members is up, and 2 are needed: the API does not answer");
    }

    #[test]
    fn a_survivor_answers_and_is_not_healthy() {
        let tell = |total, up, answering| summary(Quorum { total, up }, answering);
        let told = "1 of 3 members answers, 0 are healthy, and 2 are needed: etcd has no quorum";
        assert_eq!(tell(3, 0, 1), told);
        let told = "3 of 3 members answer, 1 is healthy, and 2 are needed: etcd has no quorum";
        assert_eq!(tell(3, 1, 3), told);
        assert_eq!(tell(3, 2, 3), "2 of 3 members are up; none may fail");
    }

    #[test]
    fn a_member_says_why_it_is_not_healthy() {
        let told = |answers, has_leader, alarms: &[&str]| health(&member(1, answers, has_leader, alarms));
        assert_eq!(told(true, true, &[]), "up");
        assert_eq!(told(true, false, &[]), "no leader");
        assert_eq!(told(false, false, &[]), "down");
        assert_eq!(told(true, true, &["NOSPACE"]), "NOSPACE");
        assert!(meaning("CORRUPT").starts_with("alarm CORRUPT: its data differs"));
    }

    #[test]
    fn sizes_are_millions_of_bytes() {
        assert_eq!(megabytes(3_456_789), "3.4 MB");
        assert_eq!(megabytes(20_480), "0.0 MB");
    }
}
