use std::sync::Arc;

use super::*;
use flotilla_testkit::fake::FakeMachine;

/// As etcdctl 3.7 writes it: one member that is up, one that was announced and never started.
const LIST: &str = r#"{"header":{"cluster_id":12423819632738658778,"member_id":10756254964881169537,"raft_term":2},"members":[{"ID":10756254964881169537,"name":"demo","peerURLs":["https://10.213.0.2:2380"],"clientURLs":["https://10.213.0.2:2379"]},{"ID":12552046710664747208,"peerURLs":["https://10.213.0.3:2380"],"isLearner":true}]}"#;
const ALONE: &str =
    r#"{"members":[{"ID":10756254964881169537,"name":"demo","peerURLs":["https://10.213.0.2:2380"]}]}"#;
const STATUS: &str = r#"[{"Endpoint":"https://10.213.0.2:2379","Status":{"header":{"member_id":10756254964881169537},"version":"3.7.0","dbSize":1454080,"leader":10756254964881169537,"raftIndex":1228}}]"#;

const LISTING: &str = "etcdctl --endpoints=https://127.0.0.1:2379 member list --consistency=l";
const REMOVAL_OF_M02: &str = "etcdctl --endpoints=https://127.0.0.1:2379 member remove ae31d3fad14858c8";

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

fn m02() -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 0, 3)
}

#[tokio::test]
async fn members_say_how_they_are() {
    let script = [("member list", Ok(LIST)), (".2:2379", Ok(STATUS)), (".3:2379", Err("deadline exceeded"))];
    let members = status(&FakeMachine::new(&[], &script)).await.unwrap();
    let first = Member {
        name: "demo".to_owned(),
        id: 10_756_254_964_881_169_537,
        address: Ipv4Addr::new(10, 213, 0, 2),
        answers: true,
        up: true,
        learner: false,
    };
    let second = Member {
        name: String::new(),
        id: 12_552_046_710_664_747_208,
        address: m02(),
        answers: false,
        up: false,
        learner: true,
    };
    assert_eq!(members.iter().map(|status| status.member.clone()).collect::<Vec<_>>(), [first, second]);
    assert_eq!(members.iter().map(|status| status.is_leader).collect::<Vec<_>>(), [true, false]);
    assert_eq!((members[0].size, members[0].version.as_deref()), (Some(1_454_080), Some("3.7.0")));
    assert_eq!((members[1].size, members[1].version.as_deref()), (None, None));
}

/// What a member says of itself: its leader's number, and what is wrong.
fn says(leader: u64, errors: &str) -> &'static str {
    let errors = if errors.is_empty() { String::new() } else { format!(r#","errors":[{errors}]"#) };
    let status = format!(r#"{{"header":{{"revision":70}},"leader":{leader},"raftIndex":90{errors}}}"#);
    format!(r#"[{{"Endpoint":"https://10.213.0.2:2379","Status":{status}}}]"#).leak()
}

/// Who of three members is healthy, by what they say; one that is silent says nothing.
async fn healthy(said: [&'static str; 3]) -> Vec<MemberStatus> {
    let mut script = vec![("member list", Ok(THREE))];
    for (endpoint, said) in [".2:2379", ".3:2379", ".4:2379"].into_iter().zip(said) {
        script.push((endpoint, if said.is_empty() { Err("deadline exceeded") } else { Ok(said) }));
    }
    status(&FakeMachine::new(&[], &script)).await.unwrap()
}

fn ups(members: &[MemberStatus]) -> Vec<(bool, bool)> {
    members.iter().map(|status| (status.member.answers, status.member.up)).collect()
}

#[tokio::test]
async fn a_member_without_a_leader_is_not_healthy() {
    let members = healthy([says(0, r#""etcdserver: no leader""#), "", ""]).await;
    assert_eq!(ups(&members), [(true, false), (false, false), (false, false)]);
    assert!(members[0].is_leaderless && members[0].complaints.is_empty());
    assert_eq!(members[0].revision, Some(70));
}

#[tokio::test]
async fn a_member_with_an_alarm_is_not_healthy_whoever_tells_of_it() {
    // In the words of etcd 3.6 and of 3.7, which does not promise how many spaces it writes.
    for text in [r#""memberID:2 alarm:NOSPACE ""#, r#""memberID:2  alarm:NOSPACE""#] {
        let members = healthy([says(1, text), says(1, text), ""]).await;
        assert_eq!(ups(&members), [(true, true), (true, false), (false, false)]);
        let alarms: Vec<_> = members.iter().map(|status| status.alarms.join(",")).collect();
        assert_eq!(alarms, ["", "NOSPACE", ""]);
        assert!(members.iter().all(|status| status.complaints.is_empty()));
    }
    let members = healthy([says(1, r#""memberID:3 alarm:CORRUPT ""#), says(1, ""), ""]).await;
    assert_eq!(members[2].alarms, ["CORRUPT"], "it is silent, and the others know why");
}

#[tokio::test(start_paused = true)]
async fn an_election_is_waited_for_where_a_majority_can_hold_one() {
    let electing = says(0, r#""etcdserver: no leader""#);
    let mut script = vec![("member list", Ok(THREE)); 2];
    for (endpoint, answers) in [(".2:2379", [electing, says(2, "")]), (".3:2379", [electing, says(2, "")])] {
        script.extend(answers.map(|answer| (endpoint, Ok(answer))));
    }
    script.extend([(".4:2379", Err("deadline exceeded")); 2]);
    let members = status(&FakeMachine::new(&[], &script)).await.unwrap();
    assert_eq!(ups(&members), [(true, true), (true, true), (false, false)]);
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error() {
    let error = status(&FakeMachine::new(&[], &[("member list", Ok("Error: what?"))])).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the list of etcd's members");
}

#[tokio::test]
async fn a_member_is_known_by_its_address_before_it_has_a_name() {
    let machine = FakeMachine::new(&[], &[("member list", Ok(LIST)), ("member list", Ok(ALONE))]);
    remove_node(&machine, "demo-m02", m02(), &never()).await.unwrap();
    let lead = "etcdctl --endpoints=https://10.213.0.3:2379 move-leader 9545e4e6c7461c81";
    assert_eq!(machine.log(), [LISTING, lead, REMOVAL_OF_M02, LISTING]);
}

/// Three members. The second answers, the third leads.
const THREE: &str = r#"{"header":{"member_id":2},"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]},{"ID":2,"name":"demo-m02","peerURLs":["https://10.213.0.3:2380"]},{"ID":3,"name":"demo-m03","peerURLs":["https://10.213.0.4:2380"]}]}"#;

#[tokio::test]
async fn the_heir_of_one_that_goes_is_the_one_that_answers() {
    let machine = FakeMachine::new(&[], &[("member list", Ok(THREE)), ("member list", Ok(ALONE))]);
    remove_node(&machine, "demo-m03", Ipv4Addr::new(10, 213, 0, 4), &never()).await.unwrap();
    assert_eq!(machine.log()[1], "etcdctl --endpoints=https://10.213.0.4:2379 move-leader 2");
}

#[tokio::test]
async fn one_that_goes_itself_or_has_no_vote_is_no_heir() {
    const LEARNER: &str = r#"{"header":{"member_id":2},"members":[{"ID":2,"name":"demo-m02","peerURLs":["https://10.213.0.3:2380"],"isLearner":true},{"ID":3,"name":"demo-m03","peerURLs":["https://10.213.0.4:2380"]}]}"#;
    for (list, number) in [(THREE, 3), (LEARNER, 4)] {
        let machine = FakeMachine::new(&[], &[("member list", Ok(list)), ("member list", Ok(ALONE))]);
        remove_node(&machine, "", Ipv4Addr::new(10, 213, 0, number), &never()).await.unwrap();
        assert!(!machine.log().iter().any(|line| line.contains("move-leader")), "{:#?}", machine.log());
    }
}

#[tokio::test]
async fn one_that_is_no_member_is_removed() {
    let machine = FakeMachine::new(&[], &[("member list", Ok(ALONE))]);
    remove_node(&machine, "demo-m02", m02(), &never()).await.unwrap();
    assert_eq!(machine.log(), [LISTING]);
}

#[tokio::test(start_paused = true)]
async fn etcd_may_want_to_wait_before_it_lets_a_member_go() {
    let script = [
        ("member list", Ok(LIST)),
        ("member remove", Err("etcdserver: unhealthy cluster")),
        ("member list", Ok(LIST)),
        ("member list", Ok(ALONE)),
    ];
    let machine = FakeMachine::new(&[], &script);
    remove_node(&machine, "demo-m02", m02(), &never()).await.unwrap();
    assert_eq!(machine.log().iter().filter(|line| *line == REMOVAL_OF_M02).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_is_a_member_is_asked_until_a_majority_says_so() {
    let cluster = flotilla_testkit::fake::cluster("10.213.0.0/24");
    let script = [("member list", Err("etcdserver: request timed out")), ("member list", Ok(ALONE))];
    let machine = FakeMachine::new(&[], &script);
    assert!(has_member(&machine, &cluster.primary().unwrap(), &never()).await.unwrap());
    assert_eq!(machine.log(), [LISTING, LISTING]);
    let script = vec![("member list", Err("etcdserver: request timed out")); 1000];
    let machine = FakeMachine::new(&[], &script);
    let error = has_member(&machine, &cluster.primary().unwrap(), &never()).await.unwrap_err();
    assert!(matches!(error, BootstrapError::TimedOut { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_come_at_once_is_asked_for_again() {
    let script = [("member list", Err("etcdserver: request timed out")), ("member list", Ok(ALONE))];
    let machine = FakeMachine::new(&[], &script);
    remove_node(&machine, "demo-m02", m02(), &never()).await.unwrap();
    assert_eq!(machine.log(), [LISTING, LISTING]);
}

#[tokio::test]
async fn a_stranger_is_known_by_its_number_alone() {
    let machine = FakeMachine::new(&[], &[("member list", Ok(LIST)), ("member list", Ok(ALONE))]);
    let (name, id, address) = (String::new(), 12_552_046_710_664_747_208, Ipv4Addr::new(10, 213, 0, 2));
    let stranger = Member { name, id, address, answers: false, up: false, learner: true };
    remove_member(&machine, &stranger, &never()).await.unwrap();
    assert!(machine.log().contains(&REMOVAL_OF_M02.to_owned()), "{:#?}", machine.log());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_etcd_does_not_let_go_is_an_error() {
    let script: Vec<_> = [("member list", Ok(LIST)), ("member remove", Err("etcdserver: unhealthy cluster"))]
        .into_iter()
        .cycle()
        .take(1000)
        .collect();
    let error = remove_node(&FakeMachine::new(&[], &script), "demo-m02", m02(), &never()).await.unwrap_err();
    let BootstrapError::TimedOut { seen, .. } = error else { panic!("{error:?}") };
    assert_eq!(seen, ["etcdserver: unhealthy cluster"]);
}
