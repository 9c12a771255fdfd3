//! How many control planes have their data: a majority of them needs no recovery, only a start.

use flotilla_core::Member;
use flotilla_core::{Cluster, Node};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_spec::{Role, WantedPower};

use crate::etcd::status::Members;

/// The control planes with data, of those that have a vote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disks {
    pub(super) with_data: Vec<String>,
    pub(super) total: usize,
}

impl Disks {
    /// Looks at the disk of every control plane, on or off. `view` is what is known of etcd's members.
    pub(super) async fn look(
        engine: &Engine<'_>,
        cluster: &Cluster,
        view: Option<&Members>,
    ) -> Result<Self, EngineError> {
        let machines = engine.machines(cluster).await?;
        let mut facts = Vec::new();
        for node in cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane) {
            let has_data = match machines.get(&node.spec.name) {
                Some(machine) => match engine.bootstrapper.has_data(&node, machine.as_ref()).await? {
                    Some(has_data) => has_data,
                    // Its record is all that is known.
                    None => machine.record().await?.membership.holds_data(),
                },
                None => false,
            };
            facts.push((node, has_data));
        }
        let voters: Option<Vec<_>> = view.map(|view| view.voters().cloned().collect());
        Ok(Self::count(&facts, voters.as_deref()))
    }

    /// Without an answer of etcd its members are not known. A control plane that was stopped and has no data has most
    /// likely left before: not to count it errs on the side of refusing.
    fn count(facts: &[(Node, bool)], voters: Option<&[Member]>) -> Self {
        let may_be_member = |(node, has_data): &&(Node, bool)| match voters {
            Some(voters) => voters.iter().any(|member| member.is_of(node)),
            None => *has_data || node.spec.power == WantedPower::Running,
        };
        let members: Vec<_> = facts.iter().filter(may_be_member).collect();
        let with_data = members.iter().filter(|(_, has_data)| *has_data);
        let with_data = with_data.map(|(node, _)| node.spec.name.to_string()).collect();
        Self { with_data, total: voters.map_or(members.len(), <[_]>::len) }
    }

    pub(super) fn are_majority(&self) -> bool {
        self.with_data.len() > self.total / 2
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use flotilla_spec::NodeSpec;

    use super::*;

    fn node(number: u8, power: WantedPower) -> Node {
        let spec = NodeSpec::plain(format!("m{number}").parse().unwrap(), Role::ControlPlane);
        Node {
            spec: NodeSpec { power, ..spec },
            number: number.into(),
            address: Ipv4Addr::new(10, 0, 0, number),
            pod_range: "10.244.0.0/24".parse().unwrap(),
        }
    }

    fn member(number: u8) -> Member {
        let (name, address) = (format!("m{number}"), Ipv4Addr::new(10, 0, 0, number));
        Member { name, id: number.into(), address, answers: false, up: false, learner: false }
    }

    /// Control planes m1, m2, …: `d` has its data, `-` has none, `D` and `s` are the same and were stopped.
    fn count(states: &str, voters: Option<&[u8]>) -> (usize, usize, bool) {
        let facts = states.chars().zip(1..).map(|(state, number)| {
            let power = if matches!(state, 'D' | 's') { WantedPower::Stopped } else { WantedPower::Running };
            (node(number, power), matches!(state, 'd' | 'D'))
        });
        let voters: Option<Vec<_>> = voters.map(|voters| voters.iter().copied().map(member).collect());
        let disks = Disks::count(&facts.collect::<Vec<_>>(), voters.as_deref());
        (disks.with_data.len(), disks.total, disks.are_majority())
    }

    #[test]
    fn a_majority_that_has_its_data_is_seen_whether_etcd_answers_or_not() {
        assert_eq!(count("ddd", None), (3, 3, true));
        assert_eq!(count("dd-", None), (2, 3, true));
        assert_eq!(count("dD-", None), (2, 3, true), "one that was stopped by force is still a member");
        assert_eq!(count("d", None), (1, 1, true));
        assert_eq!(count("dd-", Some(&[1, 2, 3])), (2, 3, true));
    }

    #[test]
    fn a_minority_with_data_is_what_recovery_is_for() {
        assert_eq!(count("d--", None), (1, 3, false));
        assert_eq!(count("d-", None), (1, 2, false));
        assert_eq!(count("dd--", None), (2, 4, false));
        assert_eq!(count("d--", Some(&[1, 2, 3])), (1, 3, false));
        // Members that no node has any more.
        assert_eq!(count("d", Some(&[1, 8, 9])), (1, 3, false));
    }

    #[test]
    fn one_that_has_left_etcd_does_not_count() {
        assert_eq!(count("dss", None), (1, 1, true));
        assert_eq!(count("dd-ss", None), (2, 3, true));
        assert_eq!(count("dd-ss", Some(&[1, 2, 3])), (2, 3, true));
        // Its data is of another time.
        assert_eq!(count("d-d", Some(&[1, 2])), (1, 2, false));
    }
}
