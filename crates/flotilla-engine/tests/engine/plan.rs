//! From what exists to the steps of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_core::Cluster;
use flotilla_core::{Condition, Drain, KubernetesState, MachineState, Power};
use flotilla_engine::converge::Lanes;
use flotilla_engine::plan::{self, Action, Observed, Plan};
use flotilla_spec::network::Cni;
use flotilla_spec::{NodeName, NodeSpec, Role, Taint, WantedPower};
use flotilla_testkit::fake;

const ON: MachineState = MachineState { power: Power::On, intact: true };
const DAMAGED: MachineState = MachineState { power: Power::On, intact: false };
const OFF: MachineState = MachineState { power: Power::Off, intact: false };
const DRAIN: Drain = Drain { limit: Duration::from_secs(30), force: false };

const STATES: [KubernetesState; 4] = [
    KubernetesState::Unreachable,
    KubernetesState::Incomplete,
    KubernetesState::Paused,
    KubernetesState::Complete,
];

fn one_node() -> Cluster {
    fake::cluster("10.213.0.0/24")
}

fn four_nodes() -> Cluster {
    let yaml = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo-a, role: worker}
- {name: demo-b, role: control-plane}
- {name: demo-c, role: control-plane}
- {name: demo-d, role: worker, power: stopped}
";
    fake::cluster_of(yaml, "10.213.0.0/24")
}

/// Everything runs that the cluster has, stopped nodes too.
fn all_of(cluster: &Cluster) -> Observed {
    Observed {
        network: true,
        routes: true,
        machines: cluster.spec.nodes.iter().map(|node| (node.name.clone(), ON)).collect(),
        kubernetes: KubernetesState::Complete,
        paused: BTreeSet::new(),
        joined: cluster.spec.nodes.iter().map(|node| node.name.clone()).collect(),
        orphans: BTreeSet::new(),
        due: BTreeSet::new(),
        expired_authority: None,
        emptied: BTreeSet::new(),
        initial_members: cluster.spec.control_planes().map(|node| node.name.clone()).collect(),
        members: None,
        published: true,
    }
}

fn with_machine(cluster: &Cluster, state: MachineState) -> Observed {
    let machines = BTreeMap::from([(cluster.spec.primary().name.clone(), state)]);
    Observed { machines, ..all_of(cluster) }
}

fn ready() -> BTreeSet<Condition> {
    [Condition::NodeReady].into()
}

fn start(observed: &Observed) -> String {
    shown(&plan::start(&one_node(), observed, &ready()))
}

/// One line for each step: its name, and the names of those that must be done before.
fn shown(plan: &Plan) -> String {
    let line = |step: &plan::PlannedStep| {
        let before: Vec<_> = step.after.iter().map(|at| plan.steps[*at].name.as_str()).collect();
        if before.is_empty() { step.name.clone() } else { format!("{} <- {}", step.name, before.join(", ")) }
    };
    plan.steps.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_new_cluster_needs_everything() {
    insta::assert_snapshot!(start(&Observed::nothing()), @"
    network
    machine/demo <- network
    api/demo <- machine/demo
    complete <- machine/demo, api/demo
    kubeconfig <- machine/demo, api/demo
    wait <- machine/demo, complete, kubeconfig
    ");
}

#[test]
fn what_is_there_is_only_waited_for() {
    let cluster = one_node();
    let plan = plan::start(&cluster, &all_of(&cluster), &ready());
    insta::assert_snapshot!(shown(&plan), @"wait");
    assert!(!plan.changes_something());
}

#[test]
fn what_is_there_needs_nothing_if_nothing_is_waited_for() {
    let cluster = one_node();
    let plan = plan::start(&cluster, &all_of(&cluster), &BTreeSet::new());
    assert_eq!(plan, Plan::default());
    assert!(!plan.changes_something());
}

#[test]
fn a_new_cluster_that_nobody_waits_for_is_made_all_the_same() {
    let plan = plan::start(&one_node(), &Observed::nothing(), &BTreeSet::new());
    insta::assert_snapshot!(shown(&plan), @"
    network
    machine/demo <- network
    api/demo <- machine/demo
    complete <- machine/demo, api/demo
    kubeconfig <- machine/demo, api/demo
    ");
    assert!(plan.changes_something());
}

#[test]
fn a_machine_that_was_off_has_no_kubernetes_whatever_was_seen_of_it() {
    let cluster = one_node();
    let plans = STATES.map(|kubernetes| start(&Observed { kubernetes, ..with_machine(&cluster, OFF) }));
    insta::assert_snapshot!(plans[0], @"
    machine/demo
    api/demo <- machine/demo
    complete <- machine/demo, api/demo
    wait <- machine/demo, complete
    ");
    assert!(plans.iter().all(|plan| *plan == plans[0]), "{plans:#?}");
}

#[test]
fn a_machine_that_lost_its_link_is_repaired_and_its_kubernetes_left_alone() {
    let cluster = one_node();
    insta::assert_snapshot!(start(&with_machine(&cluster, DAMAGED)), @"
    machine/demo
    wait <- machine/demo
    ");
    let plan = plan::start(&cluster, &with_machine(&cluster, DAMAGED), &ready());
    assert_eq!(plan.steps[0].title, "repairing node demo");
}

#[test]
fn a_silent_api_is_started_in_the_machine_that_runs() {
    let observed = Observed { kubernetes: KubernetesState::Unreachable, ..all_of(&one_node()) };
    insta::assert_snapshot!(start(&observed), @"
    api/demo
    complete <- api/demo
    wait <- complete
    ");
}

#[test]
fn a_cluster_that_lacks_parts_is_completed() {
    let observed = Observed { kubernetes: KubernetesState::Incomplete, ..all_of(&one_node()) };
    insta::assert_snapshot!(start(&observed), @"
    complete
    wait <- complete
    ");
}

#[test]
fn an_api_that_is_silent_because_control_planes_are_paused_is_not_waited_for_before_they_are_unpaused() {
    let cluster = four_nodes();
    let paused = BTreeSet::from(["demo-c".parse().unwrap()]);
    let silent =
        Observed { kubernetes: KubernetesState::Unreachable, paused: paused.clone(), ..all_of(&cluster) };
    let plan = shown(&plan::start(&cluster, &silent, &ready()));
    let lines: Vec<_> = plan.lines().collect();
    assert!(lines.contains(&"unpause/demo-c") && lines.contains(&"api/demo-b <- unpause/demo-c"), "{plan}");
    // A majority goes on without it: somebody wants it like that.
    let serves = Observed { paused, ..all_of(&cluster) };
    assert!(!plan::start(&cluster, &serves, &ready()).changes_something());
}

#[test]
fn a_paused_cluster_is_woken() {
    let observed = Observed { kubernetes: KubernetesState::Paused, ..all_of(&one_node()) };
    insta::assert_snapshot!(start(&observed), @"
    unpause/demo
    wait <- unpause/demo
    ");
    let several = Observed { kubernetes: KubernetesState::Paused, ..all_of(&four_nodes()) };
    insta::assert_snapshot!(shown(&plan::start(&four_nodes(), &several, &ready())), @"
    unpause/demo-b
    unpause/demo-a
    unpause/demo-c
    wait <- unpause/demo-b, unpause/demo-a, unpause/demo-c
    ");
}

#[test]
fn a_cluster_that_the_kubeconfig_does_not_name_is_published() {
    let observed = Observed { published: false, ..all_of(&one_node()) };
    insta::assert_snapshot!(start(&observed), @"
    kubeconfig
    wait <- kubeconfig
    ");
}

#[test]
fn without_the_network_nothing_else_is_begun() {
    let observed = Observed { network: false, published: false, ..all_of(&one_node()) };
    insta::assert_snapshot!(start(&observed), @"
    network
    kubeconfig <- network
    wait <- network, kubeconfig
    ");
}

#[test]
fn machines_boot_side_by_side_and_one_that_is_wanted_off_stays_off() {
    let plan = plan::start(&four_nodes(), &Observed::nothing(), &ready());
    insta::assert_snapshot!(shown(&plan), @"
    network
    machine/demo-a <- network
    machine/demo-b <- network
    machine/demo-c <- network
    api/demo-b <- machine/demo-b, machine/demo-c
    complete <- machine/demo-b, api/demo-b
    join/demo-a <- machine/demo-b, complete, machine/demo-a
    join/demo-c <- machine/demo-b, complete, machine/demo-c
    kubeconfig <- machine/demo-b, api/demo-b
    wait <- machine/demo-b, complete, join/demo-a, join/demo-c, kubeconfig
    ");
}

#[test]
fn a_node_that_comes_to_a_running_cluster_joins_and_the_others_learn_of_it() {
    let cluster = four_nodes();
    let mut observed = all_of(&cluster);
    let new = "demo-a".parse().unwrap();
    observed.machines.remove(&new);
    observed.joined.remove(&new);
    observed.routes = false;
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"
    routes
    machine/demo-a <- routes
    join/demo-a <- machine/demo-a
    wait <- routes, join/demo-a
    ");
    // Others may still lack the route to a node that has joined.
    observed.machines.insert(new.clone(), ON);
    observed.joined.insert(new);
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"
    routes
    wait <- routes
    ");
}

fn names<const N: usize>(names: [&str; N]) -> [NodeName; N] {
    names.map(|name| name.parse().unwrap())
}

/// With three control planes more.
fn seven_nodes() -> Cluster {
    let more =
        ["demo-e", "demo-f", "demo-g"].map(|name| format!("- {{name: {name}, role: control-plane}}\n"));
    fake::cluster_of(&(four_nodes().spec.to_yaml() + &more.concat()), "10.213.0.0/24")
}

#[test]
fn control_planes_join_when_the_others_know_of_them() {
    let cluster = seven_nodes();
    let mut observed = all_of(&cluster);
    for new in names(["demo-a", "demo-e", "demo-f"]) {
        observed.machines.remove(&new);
        observed.joined.remove(&new);
        observed.routes = false;
    }
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"
    routes
    machine/demo-a <- routes
    machine/demo-e <- routes
    machine/demo-f <- routes
    join/demo-a <- machine/demo-a
    join/demo-e <- machine/demo-e, routes
    join/demo-f <- machine/demo-f, routes
    wait <- routes, join/demo-a, join/demo-e, join/demo-f
    ");
}

#[test]
fn any_control_plane_that_is_a_member_is_good_enough_to_go_on_from() {
    let cluster = seven_nodes();
    let mut observed = all_of(&cluster);
    let [primary, next] = names(["demo-b", "demo-c"]);
    observed.machines.insert(primary.clone(), OFF);
    observed.joined.remove(&primary);
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"
    machine/demo-b
    join/demo-b <- machine/demo-b
    wait <- join/demo-b
    ");
    // Alone it is no majority: the API comes with the others.
    for name in names(["demo-e", "demo-f", "demo-g"]) {
        observed.machines.insert(name.clone(), OFF);
        observed.joined.remove(&name);
    }
    observed.kubernetes = KubernetesState::Unreachable;
    let silent = shown(&plan::start(&cluster, &observed, &ready()));
    assert!(silent.contains("\napi/demo-c\n"), "{silent}");
    // Nobody else is a member: what is in the primary's machine must not be made again elsewhere.
    observed.machines.insert(next.clone(), OFF);
    observed.joined.remove(&next);
    let off = shown(&plan::start(&cluster, &observed, &ready()));
    assert!(off.contains("\napi/demo-b <- machine/demo-b\n"), "{off}");
    // Also not in one that was never there.
    observed.machines.remove(&primary);
    observed.initial_members.remove(&primary);
    let lost = shown(&plan::start(&cluster, &observed, &ready()));
    assert!(lost.contains("\napi/demo-c <- machine/demo-c\n"), "{lost}");
    // Nor in one that was made again after that, and has not joined yet.
    observed.machines.insert(primary, OFF);
    let empty = shown(&plan::start(&cluster, &observed, &ready()));
    assert!(empty.contains("\napi/demo-c <- machine/demo-c\n"), "{empty}");
}

#[test]
fn a_cluster_is_not_made_a_second_time_while_its_only_member_is_to_stay_off() {
    let mut cluster = seven_nodes();
    let [member] = names(["demo-c"]);
    let nodes = cluster.spec.nodes.iter_mut();
    nodes.filter(|node| node.name == member).for_each(|node| node.power = WantedPower::Stopped);
    let machines = cluster.spec.nodes.iter().map(|node| (node.name.clone(), OFF)).collect();
    let observed =
        Observed { network: true, machines, initial_members: [member].into(), ..Observed::nothing() };
    let plan = shown(&plan::start(&cluster, &observed, &ready()));
    assert!(plan.contains("\napi/demo-c\n"), "{plan}");
}

#[test]
fn several_control_planes_found_a_cluster_together() {
    let mut cluster = seven_nodes();
    cluster.spec.nodes.iter_mut().find(|node| node.name.as_ref() == "demo-g").unwrap().power =
        WantedPower::Stopped;
    let plan = shown(&plan::start(&cluster, &Observed::nothing(), &ready()));
    let api = plan.lines().find(|line| line.starts_with("api/")).unwrap();
    assert_eq!(api, "api/demo-b <- machine/demo-b, machine/demo-c, machine/demo-e, machine/demo-f");
    // Those of a cluster that has been there do not wait for each other's machines.
    let initial_members = names(["demo-b", "demo-c", "demo-e", "demo-f"]).into();
    let again = Observed { initial_members, ..Observed::nothing() };
    let plan = shown(&plan::start(&cluster, &again, &ready()));
    assert!(plan.contains("\napi/demo-b <- machine/demo-b\n"), "{plan}");
}

#[test]
fn an_api_that_answers_in_a_machine_that_is_no_member_is_started_again() {
    let cluster = one_node();
    let observed =
        Observed { joined: BTreeSet::new(), kubernetes: KubernetesState::Incomplete, ..all_of(&cluster) };
    let plan = start(&observed);
    assert!(plan.starts_with("api/demo\ncomplete <- api/demo\n"), "{plan}");
}

#[test]
fn a_member_that_is_to_stop_is_still_the_one_that_others_join() {
    let mut cluster = four_nodes();
    cluster.spec.nodes[1].power = WantedPower::Stopped;
    let mut observed = all_of(&cluster);
    let [new] = names(["demo-c"]);
    observed.machines.remove(&new);
    observed.joined.remove(&new);
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"
    machine/demo-c
    join/demo-c <- machine/demo-c
    wait <- join/demo-c
    ");
}

#[test]
fn control_planes_retire_one_after_the_other_before_they_stop_or_go() {
    let cluster = seven_nodes();
    let mut observed = all_of(&cluster);
    let nodes = names(["demo-a", "demo-b", "demo-c", "demo-e"]);
    let retiring = names(["demo-e", "demo-b"]);
    observed.machines.insert(nodes[3].clone(), OFF);
    insta::assert_snapshot!(shown(&plan::stop_nodes(&observed, &nodes, &retiring)), @"
    leave-control-plane/demo-e
    leave-control-plane/demo-b <- leave-control-plane/demo-e
    stop/demo-a
    stop/demo-b <- leave-control-plane/demo-b
    stop/demo-c
    ");
    insta::assert_snapshot!(shown(&plan::remove_nodes(&nodes[1..], &retiring, &[], true)), @"
    leave-control-plane/demo-e
    leave-control-plane/demo-b <- leave-control-plane/demo-e
    remove-from-api/demo-b <- leave-control-plane/demo-b
    remove/demo-b <- remove-from-api/demo-b, leave-control-plane/demo-b
    remove-from-api/demo-c
    remove/demo-c <- remove-from-api/demo-c
    remove-from-api/demo-e <- leave-control-plane/demo-e
    remove/demo-e <- remove-from-api/demo-e, leave-control-plane/demo-e
    ");
    insta::assert_snapshot!(shown(&plan::remove_nodes(&nodes[1..2], &retiring[1..], &[], false)), @"
    leave-control-plane/demo-b
    remove-from-api/demo-b <- leave-control-plane/demo-b
    remove/demo-b <- remove-from-api/demo-b, leave-control-plane/demo-b
    ");
}

#[test]
fn nodes_are_emptied_and_stopped_and_one_that_is_off_is_left_alone() {
    let cluster = four_nodes();
    let nodes: [NodeName; 2] = ["demo-a", "demo-d"].map(|name| name.parse().unwrap());
    let mut observed = all_of(&cluster);
    observed.machines.insert(nodes[1].clone(), OFF);
    insta::assert_snapshot!(shown(&plan::drain_nodes(&observed, &nodes, DRAIN)), @"drain/demo-a");
    insta::assert_snapshot!(shown(&plan::stop_nodes(&observed, &nodes, &[])), @"stop/demo-a");
}

#[test]
fn only_nodes_whose_labels_or_taints_differ_are_updated() {
    let was = four_nodes().spec;
    let mut cluster = four_nodes();
    cluster.spec.nodes[0].labels = "disk=ssd".parse().unwrap();
    cluster.spec.nodes[1].cpus = "2".parse().unwrap();
    cluster.spec.nodes[3].taints = vec!["gpu:NoSchedule".parse().unwrap()];
    let new = NodeSpec::plain("demo-e".parse().unwrap(), Role::Worker);
    cluster.spec.nodes.push(NodeSpec { labels: "disk=hdd".parse().unwrap(), ..new });
    let plan = plan::update_labels(&cluster, &was);
    insta::assert_snapshot!(shown(&plan), @"
    labels/demo-a
    labels/demo-d
    ");
    assert_eq!(plan.steps[0].title, "changing the labels and taints of node demo-a");
    assert!(!plan::update_labels(&four_nodes(), &was).changes_something());
}

#[test]
fn a_taint_of_all_control_planes_comes_and_goes_in_each() {
    let was = four_nodes().spec;
    let mut tainted = four_nodes();
    tainted.spec.taint_control_planes = true;
    insta::assert_snapshot!(shown(&plan::update_labels(&tainted, &was)), @"
    labels/demo-b
    labels/demo-c
    ");
    let plan = plan::update_labels(&four_nodes(), &tainted.spec);
    let Action::UpdateLabels(_, was) = &plan.steps[0].action else { panic!("{plan:#?}") };
    assert_eq!(was.taints, [Taint::of_control_planes()]);
    assert_eq!(tainted.node(&"demo-b".parse().unwrap()).unwrap().spec.taints, was.taints);
}

#[test]
fn what_needs_a_network_is_not_waited_for_in_a_cluster_without_one() {
    let mut cluster = one_node();
    let all: BTreeSet<_> = Condition::ALL.map(|(condition, _)| condition).into();
    assert_eq!(plan::attainable(&cluster, &all), all);
    cluster.spec.network.cni = Cni::None;
    let plan = plan::start(&cluster, &all_of(&cluster), &all);
    insta::assert_snapshot!(plan.steps[0].title, @"waiting for the API server, the default service account, controllers and scheduler, kube-proxy, the kubelet");
    let plan = plan::start(&cluster, &all_of(&cluster), &ready());
    assert_eq!(plan, Plan::default(), "nothing is left to wait for");
}

#[test]
fn dns_is_not_waited_for_where_no_node_takes_its_pods() {
    let all: BTreeSet<_> = Condition::ALL.map(|(condition, _)| condition).into();
    let waits_for_dns = |taints: [&str; 4]| {
        let mut cluster = four_nodes();
        for (node, taint) in cluster.spec.nodes.iter_mut().zip(taints) {
            node.power = WantedPower::Running;
            node.taints = if taint.is_empty() { Vec::new() } else { vec![taint.parse().unwrap()] };
        }
        let attainable = plan::attainable(&cluster, &all);
        assert_eq!(attainable.contains(&Condition::Dns), attainable.contains(&Condition::SystemPods));
        assert!(attainable.contains(&Condition::NodeReady));
        attainable.contains(&Condition::Dns)
    };
    assert!(waits_for_dns(["a:NoSchedule", "a:NoExecute", "a:NoSchedule", ""]));
    assert!(!waits_for_dns(["a:NoSchedule", "a:NoExecute", "a:NoSchedule", "a=b:NoSchedule"]));
    assert!(waits_for_dns(["a:NoSchedule", "a:NoExecute", "a:NoSchedule", "a:PreferNoSchedule"]));
    let own = "node-role.kubernetes.io/control-plane:NoSchedule";
    assert!(waits_for_dns(["a:NoSchedule", "a:NoExecute", "a:NoSchedule", own]));
}

#[test]
fn a_node_leaves_the_cluster_before_its_machine_goes_if_the_cluster_can_be_asked() {
    let nodes: [NodeName; 2] = ["demo-a", "demo-d"].map(|name| name.parse().unwrap());
    insta::assert_snapshot!(shown(&plan::empty_nodes(&nodes, DRAIN)), @"
    drain/demo-a
    drain/demo-d
    ");
    insta::assert_snapshot!(shown(&plan::remove_nodes(&nodes, &[], &names(["ghost"]), true)), @"
    remove-from-api/demo-a
    remove/demo-a <- remove-from-api/demo-a
    remove-from-api/demo-d
    remove/demo-d <- remove-from-api/demo-d
    remove-from-api/ghost
    ");
    insta::assert_snapshot!(shown(&plan::remove_nodes(&nodes, &[], &[], false)), @"
    remove/demo-a
    remove/demo-d
    ");
}

#[test]
fn what_is_waited_for_is_named() {
    let all = Condition::ALL.map(|(condition, _)| condition).into();
    let plan = plan::start(&one_node(), &all_of(&one_node()), &all);
    insta::assert_snapshot!(plan.steps[0].title, @"waiting for the API server, the nodes, the default service account, controllers and scheduler, kube-proxy, DNS, the system pods, the system deployments, the kubelet");
}

#[test]
fn only_what_is_on_is_stopped_and_only_the_current_context_is_left() {
    let cluster = four_nodes();
    insta::assert_snapshot!(shown(&plan::stop(&cluster, &all_of(&cluster))), @"
    stop/demo-a
    stop/demo-b
    stop/demo-c
    stop/demo-d
    unset-context
    ");
    let off = Observed { published: false, ..with_machine(&cluster, OFF) };
    assert_eq!(plan::stop(&cluster, &off), Plan::default());
}

#[test]
fn a_machine_that_no_spec_knows_is_stopped_too() {
    let stray = BTreeMap::from([("stray".parse().unwrap(), DAMAGED)]);
    let observed = Observed { machines: stray, published: false, ..all_of(&one_node()) };
    insta::assert_snapshot!(shown(&plan::stop(&one_node(), &observed)), @"stop/stray");
}

#[test]
fn a_cluster_is_forgotten_when_all_of_it_is_gone() {
    insta::assert_snapshot!(shown(&plan::delete(one_node().name())), @"
    remove-from-kubeconfig
    remove
    remove-state <- remove-from-kubeconfig, remove
    ");
}

#[test]
fn whatever_is_there_steps_come_after_what_they_need_and_have_names_of_their_own() {
    for cluster in [one_node(), four_nodes()] {
        assert_orderly(&plan::delete(cluster.name()));
        for observed in anything(&cluster) {
            for wait in [BTreeSet::new(), ready()] {
                assert_orderly(&plan::start(&cluster, &observed, &wait));
            }
            assert_orderly(&plan::stop(&cluster, &observed));
        }
    }
}

/// Every combination of what can be seen, with all machines alike.
fn anything(cluster: &Cluster) -> Vec<Observed> {
    let mut all = Vec::new();
    for machine in [None, Some(OFF), Some(DAMAGED), Some(ON), Some(unknown())] {
        for kubernetes in STATES {
            for (network, published) in [(false, false), (false, true), (true, false), (true, true)] {
                let names = cluster.spec.nodes.iter().map(|node| node.name.clone());
                let machines = names.filter_map(|name| Some((name, machine.clone()?))).collect();
                all.push(Observed { network, machines, kubernetes, published, ..Observed::nothing() });
            }
        }
    }
    all
}

/// Of a machine whose host does not answer.
fn unknown() -> MachineState {
    MachineState::unknown("host attic does not answer")
}

#[test]
fn whatever_is_there_nothing_is_done_to_a_node_that_is_unknown_and_nothing_is_founded_beside_it() {
    let mut cluster = seven_nodes();
    cluster.spec.nodes.truncate(5);
    let nodes: Vec<_> = cluster.spec.nodes.iter().map(|node| node.name.clone()).collect();
    let states = [None, Some(OFF), Some(ON), Some(unknown())];
    for number in 0..states.len().pow(u32::try_from(nodes.len()).unwrap()) {
        let state_of = |place: usize| {
            let place = u32::try_from(place).unwrap();
            states[number / states.len().pow(place) % states.len()].clone()
        };
        let found =
            nodes.iter().enumerate().filter_map(|(place, name)| Some((name.clone(), state_of(place)?)));
        let machines: BTreeMap<_, _> = found.collect();
        let is_unknown = |node: &NodeName| machines.get(node) == Some(&unknown());
        let silent: Vec<_> = nodes.iter().filter(|node| is_unknown(node)).collect();
        if silent.is_empty() {
            continue;
        }
        // What was a member is known of machines whose host answers.
        for members in [BTreeSet::new(), machines.keys().filter(|node| !is_unknown(node)).cloned().collect()]
        {
            let is_control_plane =
                |name: &&NodeName| cluster.spec.control_planes().any(|node| node.name == **name);
            let observed = Observed {
                machines: machines.clone(),
                initial_members: members.iter().filter(is_control_plane).cloned().collect(),
                ..Observed::nothing()
            };
            let start = plan::start(&cluster, &observed, &ready());
            if observed.initial_members.is_empty() {
                assert_eq!(start, Plan::default(), "{observed:#?}");
            }
            for plan in [start, plan::stop(&cluster, &observed), plan::stop_nodes(&observed, &nodes, &[])] {
                for node in &silent {
                    let ending = format!("/{node}");
                    assert!(!plan.steps.iter().any(|step| step.name.ends_with(&ending)), "{node}: {plan:#?}");
                }
            }
        }
    }
}

fn assert_orderly(plan: &Plan) {
    let names: BTreeSet<_> = plan.steps.iter().map(|step| &step.name).collect();
    assert_eq!(names.len(), plan.steps.len(), "{plan:#?}");
    for (at, step) in plan.steps.iter().enumerate() {
        assert!(step.after.iter().all(|before| *before < at), "{plan:#?}");
    }
}

#[test]
fn steps_side_by_side_take_the_time_of_the_longest() {
    let cluster = four_nodes();
    let stop = plan::stop(&cluster, &Observed { published: false, ..all_of(&cluster) });
    let one = stop.steps[0].expected;
    assert_eq!((stop.steps.len(), stop.expected(Lanes::of_cores(2)), stop.work()), (4, one, one * 4));
    let delete = plan::delete(cluster.name());
    assert!(delete.expected(Lanes::of_cores(2)) < delete.work(), "the kubeconfig and the machines at once");
    assert_eq!(Plan::default().expected(Lanes::of_cores(2)), Duration::ZERO);
}

#[test]
fn steps_that_wait_for_their_turn_take_longer() {
    let nodes: Vec<_> = four_nodes().spec.nodes.into_iter().map(|node| node.name).collect();
    let remove = plan::remove_nodes(&nodes, &[], &[], false);
    let one = remove.steps[0].expected;
    let expected = [1, 2, 4].map(|cores| remove.expected(Lanes::of_cores(cores)));
    assert_eq!(expected, [2 * one, 2 * one, one], "two machines at a time, with four cores four");
}

#[test]
fn a_start_of_some_nodes_leaves_the_others_and_the_kubeconfig_alone() {
    let cluster = seven_nodes();
    let mut observed = all_of(&cluster);
    let [named, dead, damaged] = names(["demo-a", "demo-c", "demo-e"]);
    for node in [&named, &dead] {
        observed.machines.insert(node.clone(), OFF);
        observed.joined.remove(node);
    }
    observed.machines.insert(damaged.clone(), MachineState { power: Power::On, intact: false });
    observed.published = false;
    let plan = plan::start_nodes(&cluster, &observed, &[named], &ready());
    insta::assert_snapshot!(shown(&plan), @"
    machine/demo-a
    join/demo-a <- machine/demo-a
    wait <- join/demo-a
    ");
}

#[test]
fn a_node_that_is_being_deleted_is_not_started_unless_etcd_may_need_it() {
    let mut cluster = seven_nodes();
    let mut observed = all_of(&cluster);
    let going = names(["demo-e", "demo-a"]);
    for node in &going {
        observed.machines.insert(node.clone(), OFF);
        observed.joined.remove(node);
        cluster.allocations.leaving.insert(node.clone());
    }
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"
    machine/demo-e
    join/demo-e <- machine/demo-e
    wait <- join/demo-e
    ");
    // It has left etcd.
    observed.initial_members.remove(&going[0]);
    insta::assert_snapshot!(shown(&plan::start(&cluster, &observed, &ready())), @"wait");
}
