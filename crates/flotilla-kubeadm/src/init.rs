//! The first half of a control plane's start: etcd and the API server.

use std::sync::Arc;
use std::time::Duration;

use flotilla_core::cluster::{self, API_IS_COMING, Cluster, Node};
use flotilla_core::event::Outcome;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Membership, node};
use flotilla_node_api::Cgroup;
use kube::Client;

use crate::api::{self, PATIENT, QUICK};
use crate::authorities;
use crate::config::{self, Facts};
use crate::credentials;
use crate::files::CONFIG;
use crate::found;
use crate::host_mounts::DETACH;
use crate::kubelet::{self, CrashWatch};
use crate::leader;
use crate::membership;
use crate::patience::{Cancelled, Patience, Work};
use crate::pause;
use crate::phase::{self, in_node, run};
use crate::priority;
use crate::serving;

/// How long an API server that runs may take to say so.
const QUICK_LOOK: Duration = Duration::from_secs(2);

/// Removes what a killed `kubeadm init` left, unless data exists that belongs to its certificates.
///
/// kubeadm reuses existing files and fails at a truncated one.
const CLEAR: &str = "\
if [ -e /var/lib/etcd/member ]; then echo kept; exit; fi
systemctl stop kubelet && rm -rf /etc/kubernetes/pki /etc/kubernetes/*.conf /etc/kubernetes/manifests/*.yaml";

/// Starts etcd and the API server, and creates them if necessary.
pub(crate) async fn start_api(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
    cancelled: &Cancelled,
) -> Result<Outcome, BootstrapError> {
    let membership = membership::of(machine).await?;
    if membership.holds_data() {
        let client = api::client(cluster, &credentials::require(machine).await?, QUICK).await?;
        let serves = matches!(tokio::time::timeout(QUICK_LOOK, api::serves(&client)).await, Ok(Ok(true)));
        if serves && membership == Membership::Member {
            found::keep(others).await?;
            return Ok(Outcome::Kept);
        }
        claim_virtual_ip(machine).await?;
        // The kubelet started with the machine and starts the rest, unless somebody has stopped it.
        kubelet::start(machine).await?;
        start_members(others).await;
    } else {
        refuse_a_second_cluster(node, others).await?;
        if found::is_possible(machine, others).await? {
            found::found(cluster, node, machine, others).await?;
        } else {
            initialise(cluster, node, machine).await?;
        }
    }
    let client = api::client(cluster, &credentials::require(machine).await?, PATIENT).await?;
    wait_for_answer(&client, cluster, machine, cancelled).await?;
    if membership.holds_data() {
        let machines = others.iter().map(AsRef::as_ref).chain([machine]);
        leader::release_void(&client, cluster, machines, cancelled).await?;
    } else {
        priority::ensure(&client, cancelled).await?;
        if found::is_founder(machine).await? {
            found::register(&client, machine, others, cancelled).await?;
        }
    }
    answered(machine, others).await?;
    Ok(Outcome::Done)
}

/// Starts etcd's other members, which a restoration may have stopped before it failed: one of several is no majority.
async fn start_members(others: &[Arc<dyn Machine>]) {
    let is_to_run = async |other: &dyn Machine| {
        membership::of(other).await.is_ok_and(Membership::holds_data) && !pause::is_paused(other).await
    };
    let mut members = Vec::new();
    for other in others.iter().map(AsRef::as_ref) {
        if is_to_run(other).await {
            members.push(other);
        }
    }
    kubelet::start_all(members.into_iter()).await;
}

/// Records that the API has answered, on all initial members: their data is not removed any more.
async fn answered(machine: &dyn Machine, others: &[Arc<dyn Machine>]) -> Result<(), BootstrapError> {
    if !membership::has_joined(machine).await? {
        membership::set(machine, Membership::Member).await?;
        found::end(machine).await?;
    }
    found::keep(others).await
}

/// `kubeadm init` must not run next to an existing cluster.
async fn refuse_a_second_cluster(node: &Node, others: &[Arc<dyn Machine>]) -> Result<(), BootstrapError> {
    for other in others {
        if membership::of(other.as_ref()).await?.holds_data() {
            let action = format!("create a control plane on node {}", node.spec.name);
            let source = format!("node {} is already a member of the cluster", other.name());
            return Err(BootstrapError::Api { action, source: source.into() });
        }
    }
    Ok(())
}

/// Starts a control plane whose kubelet was stopped, and returns a client for its API.
pub(crate) async fn restart(
    cluster: &Cluster,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<Client, BootstrapError> {
    kubelet::start(machine).await?;
    let client = api::client(cluster, &credentials::require(machine).await?, PATIENT).await?;
    wait_for_answer(&client, cluster, machine, cancelled).await?;
    leader::release_all(&client, cancelled).await?;
    Ok(client)
}

/// Lets the machine claim the virtual IP as soon as its API server answers, seconds before it is fully healthy. It
/// does not take the address from another node.
pub(crate) async fn claim_virtual_ip(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let coming = machine.guest().write(API_IS_COMING, 0o644, b"").await;
    coming.map_err(in_node("claim the virtual IP", machine))
}

/// Writes kubeadm's configuration and runs its phases up to the start of the kubelet. Idempotent: kubeadm keeps
/// existing certificates and writes everything else again.
async fn initialise(cluster: &Cluster, node: &Node, machine: &dyn Machine) -> Result<(), BootstrapError> {
    claim_virtual_ip(machine).await?;
    serving::ensure(cluster, node, machine).await?;
    let configuration = config::render(cluster, node, facts(machine).await?);
    phase::put_configuration(machine, CONFIG, &configuration, &config::patches(cluster, &node.spec)).await?;
    authorities::put(cluster, machine).await?;
    match phase::init(machine).await {
        Err(BootstrapError::Node { action, node, source: source @ GuestError::Failed { .. } }) => {
            run(machine, "detach mounts of the host", Cmd::sh(DETACH)).await?;
            let cleared = run(machine, "remove an unfinished start", Cmd::sh(CLEAR)).await?;
            if cleared.text() == "kept" {
                return Err(BootstrapError::Node { action, node, source });
            }
            authorities::put(cluster, machine).await?;
            phase::init(machine).await
        }
        done => done,
    }
}

/// What has to be looked up in a machine.
pub(crate) async fn facts(machine: &dyn Machine) -> Result<Facts, BootstrapError> {
    let status = node::status(machine).await.map_err(in_node("inspect the control groups", machine))?;
    Ok(Facts { cgroup_v1: status.cgroup == Cgroup::V1 })
}

async fn wait_for_answer(
    client: &Client,
    cluster: &Cluster,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let patience = Patience::new("the first answer of the API server", cancelled);
    let work = Work::of(machine);
    let mut deaths = CrashWatch::from_now(machine).await?;
    loop {
        deaths.check().await?;
        let answer = match api::serves(client).await {
            Ok(true) => return Ok(()),
            Ok(false) => "the namespace kube-system does not exist yet".to_owned(),
            Err(error) => one_line(&error),
        };
        let mut waited =
            patience.pause_while_busy(&work, &[format!("{}: {answer}", cluster::url(cluster.api()))]).await;
        if let Err(BootstrapError::TimedOut { seen, .. } | BootstrapError::Stalled { seen, .. }) = &mut waited
        {
            seen.extend(kubelet::last_words_and_containers(machine).await);
        }
        waited?;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::etcd::sh;
    use flotilla_testkit::fake::{self, FakeMachine};

    async fn initialise_on(machine: &FakeMachine) -> Result<(), BootstrapError> {
        let cluster = fake::cluster("10.213.0.0/24");
        initialise(&cluster, &cluster.primary().unwrap(), machine).await
    }

    fn programs(machine: &FakeMachine) -> Vec<String> {
        let words = |line: &String| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        machine.log().iter().map(words).filter(|line| !line.starts_with("put")).collect()
    }

    #[tokio::test]
    async fn kubeadm_finds_its_configuration() {
        let machine = FakeMachine::new(&[], &[]);
        machine.set_statuses(&[Cgroup::V1], |status, cgroup| status.cgroup = *cgroup);
        initialise_on(&machine).await.unwrap();
        let configuration = machine.file(CONFIG).unwrap();
        assert!(configuration.contains("failCgroupV1: false"), "{configuration}");
        assert!(machine.file("/etc/flotilla/patches/etcd+strategic.yaml").is_some());
        insta::assert_snapshot!(machine.log().last().unwrap(), @"kubeadm init --config /etc/flotilla/kubeadm.yaml --skip-phases=preflight,control-plane/controller-manager,control-plane/scheduler,wait-control-plane,upload-config,upload-certs,mark-control-plane,bootstrap-token,kubelet-finalize,addon,show-join-command");
    }

    #[tokio::test]
    async fn a_start_over_cut_off_files_is_begun_afresh() {
        let machine = FakeMachine::new(&[], &[("kubeadm init", Err(""))]);
        initialise_on(&machine).await.unwrap();
        assert_eq!(
            programs(&machine),
            ["/usr/local/sbin/flotilla-init status", "kubeadm init", "sh -c", "sh -c", "kubeadm init"]
        );
        assert!(machine.log().contains(&format!("sh -c {CLEAR}")), "{:?}", machine.log());
    }

    #[tokio::test]
    async fn members_that_a_failed_restoration_stopped_are_started_and_others_are_not() {
        let member = || FakeMachine::new(&[], &[]).with_membership(Membership::Member);
        let paused = member();
        paused.put_file(crate::files::PAUSED, b"");
        let others = [member(), paused, FakeMachine::new(&[], &[])];
        let machines = others.clone().map(|other| Arc::new(other) as Arc<dyn Machine>);
        start_members(&machines).await;
        let is_started = |other: &FakeMachine| other.log().contains(&"systemctl start kubelet".to_owned());
        assert_eq!(others.each_ref().map(is_started), [true, false, false]);
    }

    /// What a killed `kubeadm init` may leave, and whether it belongs to it.
    const LEFT: [(&str, bool); 6] = [
        ("etc/kubernetes/pki/etcd/ca.crt", true),
        ("etc/kubernetes/pki/sa.key", true),
        ("etc/kubernetes/admin.conf", true),
        ("etc/kubernetes/manifests/etcd.yaml", true),
        ("etc/flotilla/kubeadm.yaml", false),
        ("var/lib/etcd/other", false),
    ];

    /// Clears away in a directory that stands for the machine's root. Gives what was printed and what is left.
    fn clear(root: &Path) -> (String, Vec<&'static str>) {
        let printed = sh(root, &format!("systemctl() {{ test \"$*\" = 'stop kubelet'; }}\n{CLEAR}"));
        let left = LEFT.iter().map(|(path, _)| *path).filter(|path| root.join(path).exists());
        (printed.trim().to_owned(), left.collect())
    }

    #[test]
    fn what_a_killed_init_left_is_cleared_away_unless_there_is_data() {
        let root = tempfile::tempdir().unwrap();
        for (path, _) in LEFT {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "cut off").unwrap();
        }
        let data = root.path().join("var/lib/etcd/member");
        std::fs::create_dir(&data).unwrap();
        assert_eq!(clear(root.path()), ("kept".to_owned(), LEFT.map(|(path, _)| path).to_vec()));

        std::fs::remove_dir(&data).unwrap();
        let others = LEFT.iter().filter(|(_, cleared)| !cleared).map(|(path, _)| *path).collect();
        assert_eq!(clear(root.path()), (String::new(), others));
    }

    #[tokio::test]
    async fn a_cluster_with_data_is_never_begun_afresh() {
        let machine = FakeMachine::new(&[], &[("kubeadm init", Err("")), ("etcd/member", Ok("kept"))]);
        let error = initialise_on(&machine).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot initialise the control plane on node demo");
        assert_eq!(
            programs(&machine),
            ["/usr/local/sbin/flotilla-init status", "kubeadm init", "sh -c", "sh -c"]
        );
    }

    #[tokio::test]
    async fn with_the_first_answer_the_data_of_all_founders_is_the_clusters() {
        let founder = |name: &str| {
            let machine = FakeMachine::named(name.parse().unwrap(), &[]);
            machine.with_membership(Membership::Founding)
        };
        let machines = ["demo", "demo-m02", "demo-m03"].map(founder);
        let [first, others @ ..] = &machines;
        let others = others.each_ref().map(|other| Arc::new(other.clone()) as Arc<dyn Machine>);
        answered(first, &others).await.unwrap();
        assert_eq!(membership::of(first).await.unwrap(), Membership::Member);
        for other in &others {
            assert_eq!(membership::of(other.as_ref()).await.unwrap(), Membership::InitialMember);
            // It is still to be finished.
            assert!(found::is_founder(other.as_ref()).await.unwrap());
        }
        // The first disk is lost, and the next start begins with another machine: no second cluster is made.
        let node = fake::cluster("10.213.0.0/24").primary().unwrap();
        let error = refuse_a_second_cluster(&node, &others).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot create a control plane on node demo");
    }

    #[tokio::test]
    async fn a_kill_between_the_records_is_made_up_for_by_the_next_start() {
        let first = FakeMachine::new(&[], &[]).with_membership(Membership::Member);
        let other = FakeMachine::named("demo-m02".parse().unwrap(), &[]);
        let other = other.with_membership(Membership::Founding);
        answered(&first, &[Arc::new(other.clone())]).await.unwrap();
        assert_eq!(membership::of(&other).await.unwrap(), Membership::InitialMember);
    }

    #[tokio::test]
    async fn a_machine_whose_record_cannot_be_read_is_no_reason_to_make_a_second_cluster() {
        let other = FakeMachine::named("demo-m02".parse().unwrap(), &[]);
        other.break_record();
        let node = fake::cluster("10.213.0.0/24").primary().unwrap();
        let error = refuse_a_second_cluster(&node, &[Arc::new(other)]).await.unwrap_err();
        assert_eq!(error.to_string(), "the record of node demo-m02 is damaged");
    }

    #[tokio::test]
    async fn a_second_failure_is_the_error() {
        let machine = FakeMachine::new(&[], &[("kubeadm init", Err("")), ("kubeadm init", Err(""))]);
        assert!(initialise_on(&machine).await.is_err());
    }
}
