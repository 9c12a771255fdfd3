//! Real bundles on the real machine: `scripts/test e2e`.
//!
//! They need root and a bundle in the person's own state directory, which is built if it does not exist (15 minutes) and
//! otherwise only read. Everything that is changed is a copy made of hard links in a directory of the test's own.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod archive;
mod attacks;
mod boot;
mod cluster;
mod contents;
mod control_planes;
mod damage;
mod disk;
mod faults;
mod guest;
mod host_state;
mod interruption;
mod killed_run;
mod lab;
mod minikube;
mod neighbours;
mod nodes;
mod suite;

use std::process::ExitCode;

use suite::Test;

/// All tests, in the order in which they begin: long ones first, so that two lanes end together; those that run alone last.
const TESTS: &[Test] = tests![
    Core: control_planes::a_cluster_outlives_any_of_its_control_planes,
    Core: nodes::nodes_come_and_go_while_the_cluster_runs,
    Core: control_planes::control_planes_come_and_go_while_a_client_writes,
    Core: nodes::many_nodes_are_one_cluster,
    Core: minikube::its_control_plane_commands_do_what_its_tests_expect,
    Core: minikube::its_multi_node_commands_do_what_its_tests_expect,
    Core: attacks::a_node_does_to_the_host_what_is_documented_and_no_more,
    Core: attacks::a_node_in_a_user_namespace_does_to_the_host_what_is_documented_and_no_more,
    Core: cluster::a_plain_cluster_does_all_that_people_do_with_one,
    Core: nodes::every_node_is_as_it_was_asked_for,
    Core: nodes::turmoil::whatever_command_is_killed_the_same_again_gets_to_its_end,
    Core: faults::whatever_is_done_to_a_cluster_start_brings_it_back,
    Core: nodes::the_network_can_be_left_to_the_person,
    Core: nodes::a_running_cluster_follows_its_file,
    Core: nodes::a_worker_in_a_user_namespace_is_a_node_like_others,
    Core: neighbours::pods_reach_the_world_through_firewalls_that_drop_and_a_name_server_on_the_loopback_link,
    Core: cluster::a_cluster_is_as_its_flags_say,
    Core: faults::killed::interrupted_and_killed_inside_its_steps_start_gets_to_its_end,
    Core: faults::side_by_side::two_clusters_do_not_meet,
    Core: faults::deletion::delete_leaves_nothing_of_a_running_a_stopped_and_a_failed_cluster,
    Core: archive::export_and_import_give_the_same_bundle,
    Core: faults::killed::a_killed_delete_is_finished_by_the_next,
    Core: faults::deletion::delete_needs_no_more_than_the_name,
    Core: boot::every_image_kubeadm_asks_for_is_there_unpacked_and_starts,
    Core: damage::verify_names_the_file_with_one_flipped_bit_and_the_missing_one,
    Core: damage::remove_refuses_while_a_cluster_uses_the_bundle,
    Core: contents::the_root_is_small_and_no_byte_is_there_twice,
    Core: contents::programs_say_the_versions_they_were_built_as,
    Core: contents::a_person_who_logs_in_finds_the_usual_programs,
    Core: contents::the_manifest_names_every_source_and_its_checksum,
    Core: contents::pause_reaps_orphans_ends_when_told_and_says_its_version,
    Core: faults::start_repairs_the_network_under_a_running_node (alone),
    Core: killed_run::the_next_run_removes_what_a_killed_one_has_left (alone),
    Core: disk::too_little_space_is_told_before_anything_is_made (alone),
    Full: control_planes::control_planes_fail_in_every_way,
    Full: control_planes::killed_while_control_planes_come_and_go_the_same_command_gets_to_its_end,
    Full: nodes::examples::every_example_boots,
    Full: interruption::killed_at_any_step_the_next_run_finishes_with_the_same_digest,
    Full: interruption::an_interrupted_and_a_killed_build_are_resumed,
    Full: nodes::turmoil::killed_at_any_step_the_next_command_gets_to_its_end,
    Full: nodes::without_the_api_a_node_can_be_deleted_and_its_name_given_again,
    Full: nodes::the_network_can_be_flannels,
    Full: nodes::slow_nodes_come_up,
    Full: cluster::a_cluster_that_stands_still_is_stopped_and_started,
    Full: faults::after_a_reboot_and_killed_stops_the_same_cluster_is_back,
    Full: faults::killed::killed_at_one_step_after_the_other_start_gets_to_its_end,
    Full: nodes::nodes_may_be_older_than_their_cluster,
    Full: neighbours::without_a_name_server_the_names_of_the_cluster_are_known_all_the_same,
    Full: faults::killed::killed_at_any_step_delete_leaves_nothing,
    Full: damage::a_damaged_part_is_made_again_and_not_used,
    Full: interruption::the_second_of_two_waits_and_says_for_whom,
    Full: guest::a_stock_debian_runs_clusters (alone),
    Full: nodes::twelve_small_workers_run_at_once (alone),
    Full: disk::a_disk_that_fills_up_stops_the_build_and_freed_it_goes_on (alone),
];

fn main() -> ExitCode {
    suite::main(TESTS)
}
