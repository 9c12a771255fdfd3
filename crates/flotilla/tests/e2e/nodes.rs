//! Clusters of many nodes: what runs between them, and how they come, go, fail and return.
//!
//! As in [`crate::cluster`], the parts of a test share a cluster. Here they go on from each other where that saves the
//! making of a node: what a part leaves is what the next one's name speaks of.

#[path = "nodes/failure.rs"]
mod failure;
#[path = "nodes/fleet.rs"]
mod fleet;
#[path = "nodes/life.rs"]
mod life;
#[path = "nodes/network.rs"]
mod network;
#[path = "nodes/placement.rs"]
mod placement;
#[path = "nodes/removal.rs"]
mod removal;
#[path = "nodes/turmoil.rs"]
mod turmoil;

use std::fs;

use crate::cluster::{Part, run};
use crate::faults::KUBECONFIG;
use crate::host_state::HostState;
use crate::lab::{self, Cluster};

#[test]
#[ignore = "needs root and a bundle"]
fn many_nodes_are_one_cluster() {
    let cluster = Cluster::new(lab::real_home(), "tn-net");
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    cluster.start(&["--nodes", "3"]);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("nodes are Ready and have roles", network::nodes_are_ready_and_have_roles),
        ("pod ranges are the nodes' own", network::pod_ranges_are_the_nodes_own),
        ("every pod reaches every other", network::every_pod_reaches_every_other),
        ("the host reaches pods and ports of every node", network::the_host_reaches_pods_and_ports),
        ("a service is reached from every node", network::a_service_is_reached_from_every_node),
        ("names are asked for by UDP from every node", network::udp_crosses_nodes),
        ("small and large answers cross nodes", network::small_and_large_answers_cross_nodes),
        ("a pod reaches itself by its service", network::a_pod_reaches_itself_by_its_service),
        ("a client keeps its server if asked to", network::a_client_keeps_its_server_if_asked_to),
        ("pods leave by their node's address", network::pods_leave_by_their_nodes_address),
        ("a node is added with labels, taints and limits", placement::a_node_is_added_as_asked),
        ("labels and taints direct pods", placement::labels_and_taints_direct_pods),
        ("pods that avoid each other spread", placement::pods_that_avoid_each_other_spread),
        ("pods land only where they fit", placement::pods_land_only_where_they_fit),
        ("who eats too much dies in its node", placement::who_eats_too_much_dies_in_its_node),
        ("a new node is reached like the others", network::every_pod_reaches_every_other),
    ];
    run(&cluster, parts);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "a cluster of many nodes");
    cluster.start(&["--nodes", "2"]);
    assert_eq!(fleet::names(&cluster), ["tn-net", "tn-net-m02"], "nothing of the one before is left");
}

#[test]
#[ignore = "needs root and a bundle"]
fn nodes_come_and_go_while_the_cluster_runs() {
    let cluster = Cluster::new(lab::real_home(), "tn-life");
    cluster.start(&["--nodes", "3", "--extra-config", failure::SOON_MISSED]);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("a stopped node returns as it was", life::a_stopped_node_returns_as_it_was),
        ("drained, its pods move; started, it takes pods again", life::a_drained_node_returns),
        ("the pods of a killed node come back elsewhere", failure::a_killed_node_is_missed_and_healed),
        ("after a reboot all nodes are back", failure::after_a_reboot_all_nodes_are_back),
        ("a budget holds a node back, unless forced", removal::a_budget_holds_a_node_back),
        ("a node of the same name is a new one", removal::a_node_of_the_same_name_is_new),
        ("numbers are not given twice", removal::numbers_are_not_given_twice),
        ("a vanished node can be deleted", removal::a_vanished_node_can_be_deleted),
        ("without the API a node can be deleted", removal::without_the_api_a_node_can_be_deleted),
    ];
    run(&cluster, parts);
}
