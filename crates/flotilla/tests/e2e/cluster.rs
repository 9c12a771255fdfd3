//! A cluster in use: what people do with one.
//!
//! Starting a cluster and filling it takes longer than most of what is shown on it, so the parts of a test share one.
//! Each part says by its name what it shows, leaves the cluster as it found it, and runs whatever became of the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::lab::{self, Cluster};

mod access;
mod bounds;
mod kubeconfig;
mod life;
pub(crate) mod network;
mod node;
mod pause;
mod security;
mod settings;
mod shell;
mod workloads;

pub(crate) use life::works_at_once;

/// What a part of a test is called, and what it does.
pub(crate) type Part = (&'static str, fn(&Cluster));

pub(crate) fn a_plain_cluster_does_all_that_people_do_with_one() {
    let sysctls = node::host_sysctls();
    let cluster = Cluster::new(lab::real_home(), "tu-plain");
    kubeconfig::write_a_foreign_one(&cluster);
    cluster.start(&[]);
    works_at_once(&cluster);
    workloads::run_on(&cluster);
    let parts: &[Part] = &[
        ("a service is reached by its name", network::a_service_is_reached_by_its_name),
        ("the host reaches node ports and pods", network::the_host_reaches_node_ports_and_pods),
        ("nodes and pods know the host by name", network::nodes_and_pods_know_the_host_by_name),
        ("the proxy uses nftables", network::the_proxy_uses_nftables),
        ("services outlive the proxy's full writing", network::services_outlive_a_full_writing_of_rules),
        ("exec and kubectl pass exit codes on", access::exec_and_kubectl_pass_exit_codes_on),
        ("a pod's logs are shown", access::a_pods_logs_are_shown),
        ("a port is forwarded", access::a_port_is_forwarded),
        ("the node's logs are shown and followed", access::the_nodes_logs_are_shown_and_followed),
        ("ssh passes bytes and exit codes on", shell::bytes_and_exit_codes_are_passed_on),
        ("ssh gives a terminal", shell::a_terminal_is_one_in_the_node),
        ("a program ends with ssh", shell::a_program_ends_with_ssh),
        ("a terminal is left as it was", shell::a_terminal_is_left_as_it_was),
        ("capacity is the host's", bounds::without_limits_the_capacity_is_the_hosts),
        ("anonymous requests are refused", security::anonymous_requests_are_refused),
        ("no service account is an admin", security::no_service_account_is_an_admin),
        ("no bootstrap token is left", security::no_bootstrap_token_is_left),
        ("secrets are the owner's alone", security::secrets_are_the_owners_alone),
        ("kubeadm understands the cluster", node::kubeadm_understands_the_cluster),
        ("orphans are reaped", node::orphans_are_reaped),
        ("the host's kernel settings are out of reach", node::the_hosts_kernel_settings_are_out_of_reach),
        ("the status has every format", life::the_status_has_every_format),
        ("a broken kubeconfig is repaired", kubeconfig::a_broken_entry_is_repaired),
        ("an entry of others stays", kubeconfig::somebody_elses_entry_of_its_name_stays),
        ("a second start changes nothing", life::a_second_start_changes_nothing),
        ("paused, pods go on and the API stands still", pause::pods_go_on_and_the_api_stands_still),
        ("a start wakes a paused cluster", pause::a_start_wakes_a_paused_cluster),
        ("stopped and started, all is back", life::stopped_and_started_all_is_back),
        ("the bundle is untouched", life::the_bundle_is_untouched),
    ];
    run(&cluster, parts);
    // What is frozen can be deleted as well.
    pause::pause(&cluster);
    kubeconfig::deleted_only_the_others_are_left(&cluster);
    assert_eq!(node::host_sysctls(), sysctls, "the host's kernel settings changed");
}

pub(crate) fn a_cluster_that_stands_still_is_stopped_and_started() {
    let cluster = Cluster::new(lab::real_home(), "tu-still");
    cluster.start(&[]);
    workloads::load_image(&cluster);
    let parts: &[Part] = &[
        ("stopped while paused, it starts again", pause::stopped_while_paused_it_starts_again),
        ("a frozen node holds no command up", pause::a_frozen_node_holds_no_command_up),
    ];
    run(&cluster, parts);
}

pub(crate) fn a_cluster_is_as_its_flags_say() {
    let cluster = Cluster::new(lab::real_home(), "tu-flags");
    let folder = tempfile::tempdir().unwrap();
    let certificate = settings::write_authority(folder.path());
    let authority = ["--certificate-authority", folder.path().to_str().unwrap()];
    cluster.start(&[bounds::FLAGS, settings::FLAGS, &authority].concat());
    settings::the_authority_is_the_users(&cluster, folder.path(), &certificate);
    workloads::load_image(&cluster);
    let parts: &[Part] = &[
        ("capacity is the limits", bounds::capacity_is_the_limits),
        ("secrets are the owner's alone", security::secrets_are_the_owners_alone),
        ("the kubelet has its extra setting", settings::the_kubelet_has_its_extra_setting),
        ("components have the feature gate", settings::components_have_the_feature_gate),
        ("the API server is at its port", settings::the_api_server_is_at_its_port),
        ("the certificate has the names", settings::the_certificate_has_the_names),
        ("the proxy's mode can be changed", settings::the_proxys_mode_can_be_changed),
        ("services and names are as asked", settings::services_and_names_are_as_asked),
        ("processor time is limited", bounds::processor_time_is_limited),
        ("memory is limited", bounds::memory_is_limited),
    ];
    run(&cluster, parts);
}

/// Runs all parts and tells which failed; what they said, and the logs of the nodes at that moment, are above.
#[expect(clippy::print_stdout, reason = "what is said between two headings belongs to the first")]
pub(crate) fn run(cluster: &Cluster, parts: &[Part]) {
    let mut failed = Vec::new();
    for (name, part) in parts {
        println!("---- {name}");
        let begun = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| part(cluster))).is_err() {
            failed.push(*name);
            cluster.print_logs();
        }
        println!("     {:.1} s", begun.elapsed().as_secs_f64());
    }
    assert!(failed.is_empty(), "{} of {} failed: {failed:#?}", failed.len(), parts.len());
}
