//! Quorum of etcd: how many members may fail or leave.

use flotilla_spec::NodeName;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use flotilla_core::Member;
use flotilla_core::cluster::Node;

/// The voting members. More than half of them must be up, or etcd accepts no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    pub total: usize,
    pub up: usize,
}

/// A change that would lose quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    pub before: Quorum,
    /// How many would still be up.
    pub left: usize,
}

impl Quorum {
    pub fn of(members: &[Member]) -> Self {
        let voters = members.iter().filter(|member| !member.learner);
        let up = voters.clone().filter(|member| member.up).count();
        Self { total: voters.count(), up }
    }

    /// How many must be up.
    pub fn needed(self) -> usize {
        self.total / 2 + 1
    }

    pub fn holds(self) -> bool {
        self.up >= self.needed()
    }

    /// How many more may fail.
    pub fn margin(self) -> usize {
        self.up.saturating_sub(self.needed())
    }
}

/// Asks all members in parallel how many are up. The first that sees a quorum is believed. A member that sees none
/// may be disconnected from the others; if none sees a quorum, the one that sees most members is believed.
pub async fn ask<T, E, F>(
    vias: impl IntoIterator<Item = F>,
    quorum: impl Fn(&T) -> Quorum,
) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut best: Option<T> = None;
    let mut failure = None;
    let mut answers: FuturesUnordered<F> = vias.into_iter().collect();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(answer) if quorum(&answer).holds() => return Ok(answer),
            Ok(answer) => {
                if best.as_ref().is_none_or(|best| quorum(best).up < quorum(&answer).up) {
                    best = Some(answer);
                }
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    best.ok_or(failure)
}

/// The order in which control planes can leave one after the other and always keep quorum.
///
/// Each member that leaves lowers the number that is needed. Members that are down leave first: they only count
/// against quorum.
pub fn order_of_leaving(members: &[Member], leaving: &[Node]) -> Result<Vec<NodeName>, Shortfall> {
    let before = Quorum::of(members);
    let member_of = |node: &Node| members.iter().find(|member| member.is_of(node));
    let mut order: Vec<&Node> = leaving.iter().collect();
    order.sort_by_key(|node| member_of(node).is_some_and(|member| member.up));
    let left = before.up - leaving.iter().filter_map(member_of).filter(|member| votes(member)).count();
    let mut now = before;
    for member in order.iter().filter_map(|node| member_of(node)).filter(|member| !member.learner) {
        let after = Quorum { total: now.total - 1, up: now.up - usize::from(member.up) };
        if !now.holds() || !after.holds() {
            return Err(Shortfall { before, left });
        }
        now = after;
    }
    Ok(order.into_iter().map(|node| node.spec.name.clone()).collect())
}

/// The members after these control planes are started: existing members are up, others have joined.
pub fn once_up(members: &[Member], coming: &[Node]) -> Vec<Member> {
    let mut members = members.to_vec();
    for node in coming {
        if let Some(member) = members.iter_mut().find(|member| member.is_of(node)) {
            (member.answers, member.up, member.learner) = (true, true, false);
        } else {
            let (name, address) = (node.spec.name.to_string(), node.address);
            members.push(Member { name, id: 0, address, answers: true, up: true, learner: false });
        }
    }
    members
}

/// Whether control planes can first be deleted and then stopped without losing quorum at any moment.
pub fn can_go(members: &[Member], deleted: &[Node], stopped: &[Node]) -> Result<(), Shortfall> {
    order_of_leaving(members, deleted)?;
    let stays = |member: &&Member| !deleted.iter().any(|node| member.is_of(node));
    let rest: Vec<_> = members.iter().filter(stays).cloned().collect();
    let before = Quorum::of(members);
    order_of_leaving(&rest, stopped).map_err(|shortfall| Shortfall { before, ..shortfall })?;
    Ok(())
}

/// Whether a control plane can restart and stay a member. With one or two members quorum is always lost, so the
/// restart is allowed.
pub fn can_pause(members: &[Member], node: &Node) -> Result<(), Shortfall> {
    let before = Quorum::of(members);
    let costs = members.iter().any(|member| member.is_of(node) && votes(member));
    let left = before.up - usize::from(costs);
    if before.total > 2 && left < before.needed() { Err(Shortfall { before, left }) } else { Ok(()) }
}

/// Whether a control plane can be paused indefinitely and stay a member. An unhealthy member can always be paused.
pub fn can_freeze(members: &[Member], node: &Node) -> Result<(), Shortfall> {
    let before = Quorum::of(members);
    let costs = members.iter().any(|member| member.is_of(node) && votes(member));
    let left = before.up - usize::from(costs);
    if costs && left < before.needed() { Err(Shortfall { before, left }) } else { Ok(()) }
}

fn votes(member: &Member) -> bool {
    member.up && !member.learner
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use flotilla_spec::{NodeSpec, Role};
    use futures::FutureExt;

    use super::*;

    fn node(number: u8) -> Node {
        Node {
            spec: NodeSpec::plain(format!("m{number}").parse().unwrap(), Role::ControlPlane),
            number: number.into(),
            address: Ipv4Addr::new(10, 0, 0, number),
            pod_range: "10.244.0.0/24".parse().unwrap(),
        }
    }

    /// Members m1, m2, …: `u` is up, `d` is down, `l` is a learner that is up, `n` was announced and never came.
    fn members(states: &str) -> Vec<Member> {
        let member = |(state, number): (char, u8)| Member {
            name: if state == 'n' { String::new() } else { format!("m{number}") },
            id: number.into(),
            address: Ipv4Addr::new(10, 0, 0, number),
            answers: matches!(state, 'u' | 'l'),
            up: matches!(state, 'u' | 'l'),
            learner: matches!(state, 'l' | 'n'),
        };
        states.chars().zip(1..).map(member).collect()
    }

    fn leave(states: &str, numbers: &[u8]) -> String {
        let leaving: Vec<_> = numbers.iter().map(|number| node(*number)).collect();
        match order_of_leaving(&members(states), &leaving) {
            Ok(order) => order.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(Shortfall { before: Quorum { total, up }, left }) => format!("{up} of {total}, {left} left"),
        }
    }

    #[test]
    fn control_planes_can_leave_while_a_majority_of_the_rest_is_up() {
        for (states, numbers, order) in [
            ("uu", &[2][..], "m2"),
            ("uuu", &[1], "m1"),
            ("uuu", &[1, 3], "m1 m3"),
            ("uuuuu", &[5, 1, 3, 2], "m5 m1 m3 m2"),
            ("uud", &[3], "m3"),
            ("uud", &[2, 3], "m3 m2"),
            ("uuudd", &[4], "m4"),
            ("uuuud", &[1], "m1"),
        ] {
            assert_eq!(leave(states, numbers), order, "{states} {numbers:?}");
        }
    }

    #[test]
    fn one_that_cannot_be_spared_stays_and_the_numbers_say_why() {
        for (states, numbers, numbers_told) in [
            ("u", &[1][..], "1 of 1, 0 left"),
            ("uu", &[1, 2], "2 of 2, 0 left"),
            ("uud", &[2], "2 of 3, 1 left"),
            ("ud", &[1], "1 of 2, 0 left"),
            ("ud", &[2], "1 of 2, 1 left"),
            ("udd", &[2, 3], "1 of 3, 1 left"),
            ("uuudd", &[1], "3 of 5, 2 left"),
        ] {
            assert_eq!(leave(states, numbers), numbers_told, "{states} {numbers:?}");
        }
    }

    #[test]
    fn who_has_no_vote_can_always_go() {
        assert_eq!(leave("ul", &[2]), "m2");
        assert_eq!(leave("un", &[2]), "m2");
        assert_eq!(leave("u", &[7]), "m7", "it is no member");
    }

    #[test]
    fn what_comes_makes_it_easier_and_what_goes_is_counted_together() {
        let nodes = |numbers: &[u8]| numbers.iter().map(|number| node(*number)).collect::<Vec<_>>();
        let change = |states: &str, coming: &[u8], deleted: &[u8], stopped: &[u8]| {
            let members = once_up(&members(states), &nodes(coming));
            match can_go(&members, &nodes(deleted), &nodes(stopped)) {
                Ok(()) => "fine".to_owned(),
                Err(Shortfall { before: Quorum { total, up }, left }) => {
                    format!("{up} of {total}, {left} left")
                }
            }
        };
        for (states, coming, deleted, stopped, told) in [
            ("uuu", &[][..], &[2][..], &[3][..], "fine"),
            ("uuu", &[], &[1, 2], &[3], "3 of 3, 0 left"),
            // Each alone could go.
            ("uuuudd", &[], &[1], &[], "fine"),
            ("uuuudd", &[], &[], &[2], "fine"),
            ("uuuudd", &[], &[1], &[2], "4 of 6, 2 left"),
            // Without the dead one the other can.
            ("uuudd", &[], &[], &[2], "3 of 5, 2 left"),
            ("uuudd", &[], &[4], &[2], "fine"),
            ("uudd", &[4], &[1], &[2], "3 of 4, 1 left"),
            // One that joins has a vote, and one that is dead comes back.
            ("uud", &[4], &[2], &[], "fine"),
            ("uud", &[3], &[2], &[], "fine"),
            ("u", &[2], &[1], &[], "fine"),
            // One that was stopped by force, still a member, goes before the next.
            ("uud", &[], &[], &[2, 3], "fine"),
            // No node can join without quorum.
            ("uddd", &[5], &[1], &[], "2 of 5, 1 left"),
        ] {
            assert_eq!(change(states, coming, deleted, stopped), told, "{states} {coming:?} {deleted:?}");
        }
    }

    #[test]
    fn one_of_three_can_be_off_for_a_moment_if_the_others_are_up() {
        let pause = |states: &str, number: u8| can_pause(&members(states), &node(number)).is_ok();
        assert!(pause("uuu", 2) && pause("uud", 3) && pause("uuuud", 1) && pause("uul", 3));
        assert!(!pause("uud", 2) && !pause("udd", 1) && !pause("uuudd", 3));
        // With one or two members quorum is always lost.
        assert!(pause("u", 1) && pause("uu", 1));
    }

    #[tokio::test]
    async fn a_member_that_never_answers_keeps_nobody_from_hearing_the_others() {
        let answer = |states: &'static str| async move { Ok::<_, &str>(members(states)) };
        let silent = || std::future::pending().boxed();
        let vias = [silent(), answer("uuu").boxed()];
        let heard = ask(vias, |members| Quorum::of(members)).await.unwrap();
        assert_eq!(Quorum::of(&heard).up, 3);
        // A disconnected member sees only itself, and may be the first to answer.
        let vias = [answer("udd").boxed(), answer("duu").boxed(), silent()];
        assert_eq!(Quorum::of(&ask(vias, |members| Quorum::of(members)).await.unwrap()).up, 2);
        let vias = [answer("udddd").boxed(), async { Err("down") }.boxed(), answer("duudd").boxed()];
        assert_eq!(Quorum::of(&ask(vias, |members| Quorum::of(members)).await.unwrap()).up, 2);
        let nobody: [std::future::Ready<Result<Vec<Member>, &str>>; 1] = [std::future::ready(Err("down"))];
        assert_eq!(ask(nobody, |members| Quorum::of(members)).await.unwrap_err(), Some("down"));
    }

    #[test]
    fn one_that_is_paused_must_leave_a_majority() {
        let freeze = |states: &str, number: u8| match can_freeze(&members(states), &node(number)) {
            Ok(()) => "fine".to_owned(),
            Err(Shortfall { before: Quorum { total, up }, left }) => format!("{up} of {total}, {left} left"),
        };
        for (states, number, told) in [
            ("uuu", 2, "fine"),
            ("uuuuu", 5, "fine"),
            ("uuuud", 1, "fine"),
            ("uud", 2, "2 of 3, 1 left"),
            ("uuudd", 1, "3 of 5, 2 left"),
            ("uu", 1, "2 of 2, 1 left"),
            ("u", 1, "1 of 1, 0 left"),
            // Paused or down already, or without a vote.
            ("uud", 3, "fine"),
            ("udd", 2, "fine"),
            ("uul", 3, "fine"),
            ("u", 7, "fine"),
        ] {
            assert_eq!(freeze(states, number), told, "{states} {number}");
        }
    }

    #[test]
    fn the_margin_is_how_many_may_still_fail() {
        let margin = |states| Quorum::of(&members(states)).margin();
        assert_eq!(["u", "uu", "uuu", "uuuu", "uuuuu"].map(margin), [0, 0, 1, 1, 2]);
        assert_eq!(["uud", "udd", "uuuud", "uul"].map(margin), [0, 0, 1, 0]);
        assert!(!Quorum::of(&members("udd")).holds() && Quorum::of(&members("uud")).holds());
    }
}
