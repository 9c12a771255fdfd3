//! Clusters of many nodes: what runs between them, and how they come, go, fail and return.
//!
//! As in [`crate::cluster`], the parts of a test share a cluster. Here they go on from each other where that saves the
//! making of a node: what a part leaves is what the next one's name speaks of.

mod crowd;
pub(crate) mod examples;
pub(crate) mod failure;
mod file;
mod flannel;
pub(crate) mod fleet;
mod isolation;
mod life;
mod network;
mod others;
mod own;
mod placement;
mod removal;
mod skew;
mod slow;
pub(crate) mod turmoil;
mod update;

use std::fs;

use crate::cluster::{Part, run, works_at_once};
use crate::faults::KUBECONFIG;
use crate::host_state::HostState;
use crate::lab::{self, Cluster};

pub(crate) fn many_nodes_are_one_cluster() {
    let cluster = Cluster::new(lab::real_home(), "tn-net");
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    cluster.start(&["--nodes", "3"]);
    works_at_once(&cluster);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("nodes are Ready and have roles", network::nodes_are_ready_and_have_roles),
        ("pod ranges are the nodes' own", network::pod_ranges_are_the_nodes_own),
        ("every pod reaches every other", network::every_pod_reaches_every_other),
        ("the host reaches pods and ports of every node", network::the_host_reaches_pods_and_ports),
        ("every node reaches every pod", network::every_node_reaches_every_pod),
        ("a service is reached from every node", network::a_service_is_reached_from_every_node),
        ("names are asked for by UDP from every node", network::udp_crosses_nodes),
        ("small and large answers cross nodes", network::small_and_large_answers_cross_nodes),
        ("a pod reaches itself by its service", network::a_pod_reaches_itself_by_its_service),
        ("a client keeps its server if asked to", network::a_client_keeps_its_server_if_asked_to),
        ("pods reach the host at the gateway alone", network::pods_reach_the_host_at_the_gateway_alone),
        ("a node is added with labels, taints and limits", placement::a_node_is_added_as_asked),
        ("labels and taints direct pods", placement::labels_and_taints_direct_pods),
        ("pods that avoid each other spread", placement::pods_that_avoid_each_other_spread),
        ("pods that belong together meet", placement::pods_that_belong_together_meet),
        ("pods land only where they fit", placement::pods_land_only_where_they_fit),
        ("who eats too much dies in its node", placement::who_eats_too_much_dies_in_its_node),
        ("a new node is reached like the others", network::every_pod_reaches_every_other),
    ];
    run(&cluster, parts);
    // Of nodes that run and of one that does not, nothing may be left that the next start would meet.
    fleet::ssh(&cluster, &fleet::worker(&cluster, 2), "echo old > /etc/mark");
    cluster.succeed(&["node", "stop", "m02"]);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "a cluster of many nodes");
    turmoil::a_node_that_fails_does_not_stop_the_others(&cluster);
    assert_eq!(fleet::ssh(&cluster, &fleet::worker(&cluster, 2), "ls /etc/mark 2>/dev/null || true"), "");
}

pub(crate) fn a_worker_in_a_user_namespace_is_a_node_like_others() {
    let cluster = Cluster::new(lab::real_home(), "tn-user");
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    isolation::start(&cluster);
    works_at_once(&cluster);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("root of the worker is nobody on the host", isolation::root_of_the_worker_is_nobody_on_the_host),
        ("every pod reaches every other", network::every_pod_reaches_every_other),
        ("a service is reached from every node", network::a_service_is_reached_from_every_node),
        ("a privileged pod is root of its node only", isolation::a_privileged_pod_is_root_of_its_node_only),
        ("its memory is limited", isolation::its_memory_is_limited),
        ("its isolation cannot change", isolation::its_isolation_cannot_change),
        ("stopped and started it is the same", isolation::stopped_and_started_it_is_the_same),
        ("a node is added with ids of its own", isolation::a_node_is_added_with_ids_of_its_own),
        ("every pod still reaches every other", network::every_pod_reaches_every_other),
    ];
    run(&cluster, parts);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "nodes in user namespaces");
}

pub(crate) fn slow_nodes_come_up() {
    let cluster = Cluster::new(lab::real_home(), "tn-slow");
    slow::a_slow_control_plane_comes_up(&cluster);
    slow::a_slow_worker_joins_a_slow_control_plane(&cluster);
}

pub(crate) fn nodes_come_and_go_while_the_cluster_runs() {
    let cluster = Cluster::new(lab::real_home(), "tn-life");
    cluster.start(&["--nodes", "3", "--extra-config", failure::SOON_MISSED]);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("a stopped node returns as it was", life::a_stopped_node_returns_as_it_was),
        ("drained, its pods move; started, it takes pods again", life::a_drained_node_returns),
        ("nodes that were taken off the list come back", life::nodes_taken_off_the_list_come_back),
        ("the pods of a killed node come back elsewhere", failure::a_killed_node_is_missed_and_healed),
        ("after a reboot all four nodes are back", failure::after_a_reboot_all_four_nodes_are_back),
        ("a budget holds a node back, unless forced", removal::a_budget_holds_a_node_back),
        ("a node of the same name is a new one", removal::a_node_of_the_same_name_is_new),
        ("numbers are not given twice", removal::numbers_are_not_given_twice),
        ("a vanished node can be deleted", removal::a_vanished_node_can_be_deleted),
    ];
    run(&cluster, parts);
}

pub(crate) fn without_the_api_a_node_can_be_deleted_and_its_name_given_again() {
    let cluster = Cluster::new(lab::real_home(), "tn-silent");
    cluster.start(&["--nodes", "2"]);
    removal::without_the_api_a_node_can_be_deleted_and_added_again(&cluster);
}

pub(crate) fn nodes_may_be_older_than_their_cluster() {
    let cluster = Cluster::new(lab::real_home(), "tn-skew");
    cluster.start(&[]);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("an older node is one of the cluster", skew::an_older_node_is_one_of_the_cluster),
        ("a node has the bundle it was given", skew::a_node_has_the_bundle_it_was_given),
    ];
    run(&cluster, parts);
}

pub(crate) fn every_node_is_as_it_was_asked_for() {
    let cluster = Cluster::new(lab::real_home(), "tn-own");
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    cluster.start(&["--nodes", "2"]);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        ("a node's name is its own in all clusters", own::a_nodes_name_is_its_own_in_all_clusters),
        ("a node is added with all that there is", own::a_node_is_added_with_all_that_there_is),
        ("its settings are its own", own::its_settings_are_its_own),
        ("directories of the host are in it", own::directories_of_the_host_are_in_it),
        ("ports of the host lead to it", own::ports_of_the_host_lead_to_it),
        ("a port that is taken is refused", own::a_port_that_is_taken_is_refused),
        ("files are copied there and back", update::files_are_copied_there_and_back),
        ("one node is paused", update::one_node_is_paused),
        ("labels and taints change live", update::labels_and_taints_change_live),
        ("ports change live", update::ports_change_live),
        ("its size changes with a restart", update::its_size_changes_with_a_restart),
        ("restarted, it has its directories", own::directories_of_the_host_are_in_it),
        ("restarted, it has its ports", own::ports_of_the_host_lead_to_it),
        ("deleted, its ports are gone", own::deleted_its_ports_are_gone),
    ];
    run(&cluster, parts);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "nodes with things of the host");
}

pub(crate) fn a_running_cluster_follows_its_file() {
    let cluster = Cluster::new(lab::real_home(), "tn-file");
    file::start(&cluster);
    let parts: &[Part] = &[
        ("settings of a kubelet are its own", file::settings_of_a_kubelet_are_its_own),
        ("nodes are added, changed and resized", file::nodes_are_added_changed_and_resized),
        ("nodes are stopped and removed", file::nodes_are_stopped_and_removed),
        ("a node on paper is made by its start", file::a_node_on_paper_is_made_by_its_start),
        ("the export matches the cluster", file::the_export_matches_the_cluster),
    ];
    run(&cluster, parts);
}

pub(crate) fn twelve_small_workers_run_at_once() {
    let cluster = Cluster::new(lab::real_home(), "tn-crowd");
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    crowd::run_on_every_node(&cluster);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "thirteen nodes");
}

pub(crate) fn the_network_can_be_flannels() {
    let cluster = Cluster::new(lab::real_home(), "tn-flannel");
    flannel::start(&cluster, &[cluster.name.clone(), fleet::worker(&cluster, 2)]);
    fleet::run_on(&cluster);
    let parts: &[Part] = &[
        (
            "pods of other nodes are behind flannel's link",
            flannel::pods_of_other_nodes_are_behind_flannels_link,
        ),
        ("pod ranges are the nodes' own", network::pod_ranges_are_the_nodes_own),
        ("every pod reaches every other", network::every_pod_reaches_every_other),
        ("a service is reached from every node", network::a_service_is_reached_from_every_node),
        ("names are asked for by UDP from every node", network::udp_crosses_nodes),
        ("stopped and started, it is back", flannel::stopped_and_started_it_is_back),
    ];
    run(&cluster, parts);
}

pub(crate) fn the_network_can_be_left_to_the_person() {
    let cluster = Cluster::new(lab::real_home(), "tn-bare");
    let parts: &[Part] = &[
        ("without a network nodes are not ready", others::without_a_network_nodes_are_not_ready),
        ("with one made by hand they are", others::with_one_made_by_hand_they_are),
        ("every pod reaches every other", network::every_pod_reaches_every_other),
    ];
    run(&cluster, parts);
    cluster.succeed(&["delete"]);
    others::a_manifest_is_applied(&cluster);
}
