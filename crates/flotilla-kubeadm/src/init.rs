//! A control plane's first half: etcd and the API server.

use std::time::Duration;

use flotilla_engine::cluster::{Cluster, Node};
use flotilla_engine::event::Outcome;
use flotilla_engine::port::{BootstrapError, Cmd, ExecError, Machine};
use flotilla_spec::Role;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DeleteParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::api::{self, PATIENT, QUICK, SYSTEM, cannot};
use crate::config::{self, Facts};
use crate::credentials;
use crate::files::{CONFIG, CRI_SOCKET, INITIALISED, PATCHES};
use crate::patience::{Cancelled, Patience};
use crate::phase::{self, in_node, run};

/// From the kubelet's start to an answer. Seconds on an idle machine, much more on an emulated one.
const LIMIT: Duration = Duration::from_mins(4);
/// Everything after it waits for the first answer, and a question on an open connection costs next to nothing.
const POLL: Duration = Duration::from_millis(20);

/// How often to look whether the kubelet lives at all, and how many deaths are too many.
const LOOK: Duration = Duration::from_secs(3);
const CRASHES: u32 = 5;

/// Clears away what a killed `kubeadm init` left, unless there is data that belongs to its certificates.
///
/// kubeadm takes over the files that it finds and stops at one that was cut off in the middle.
const CLEAR: &str = "\
if [ -e /var/lib/etcd/member ]; then echo kept; exit; fi
systemctl stop kubelet && rm -rf /etc/kubernetes/pki /etc/kubernetes/*.conf /etc/kubernetes/manifests/*.yaml";

/// Brings up etcd and the API server, whatever of them is there already.
pub(crate) async fn start_api(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<Outcome, BootstrapError> {
    let initialised =
        machine.exec().get(INITIALISED).await.map_err(in_node("look for a cluster", machine))?;
    if initialised.is_some() {
        let client = api::client(cluster, &credentials::require(machine).await?, QUICK).await?;
        if matches!(tokio::time::timeout(PATIENT, api::serves(&client)).await, Ok(Ok(true))) {
            return Ok(Outcome::Kept);
        }
        // The kubelet came up with the machine and brings the rest up, unless somebody has stopped it.
        run(machine, "start the kubelet", Cmd::new(["systemctl", "start", "kubelet"])).await?;
    } else {
        initialise(cluster, node, machine).await?;
    }
    let client = api::client(cluster, &credentials::require(machine).await?, PATIENT).await?;
    wait_for_answer(&client, cluster, machine, cancelled).await?;
    if initialised.is_some() {
        release_leases(cluster, &client).await?;
    } else {
        let mark = machine.exec().put(INITIALISED, 0o644, b"").await;
        mark.map_err(in_node("note that the control plane was made", machine))?;
    }
    Ok(Outcome::Done)
}

/// Takes the leadership from the controllers and the scheduler of the machine's earlier life: the new ones would wait
/// twenty seconds for the dead, and the services' endpoints would stay as they were before. Where there are other
/// control planes, theirs may be the leaders.
async fn release_leases(cluster: &Cluster, client: &Client) -> Result<(), BootstrapError> {
    let control_planes = cluster.spec.nodes.iter().filter(|node| node.role == Role::ControlPlane);
    if control_planes.count() > 1 {
        return Ok(());
    }
    let leases = Api::<Lease>::namespaced(client.clone(), SYSTEM);
    for name in ["kube-controller-manager", "kube-scheduler"] {
        match leases.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.map_err(cannot("release the lease of a stopped controller"))?),
        }
    }
    Ok(())
}

/// Writes kubeadm's configuration and runs it up to the kubelet's start. Can be repeated: kubeadm keeps the
/// certificates it finds and writes everything else again.
async fn initialise(cluster: &Cluster, node: &Node, machine: &dyn Machine) -> Result<(), BootstrapError> {
    let probe = Cmd::sh("[ -e /sys/fs/cgroup/cgroup.controllers ] || echo v1");
    let cgroups = run(machine, "look at the control groups", probe).await?;
    let facts = Facts { cgroup_v1: cgroups.text() == "v1" };
    put_configuration(&config::render(cluster, node, facts), machine).await?;
    match phase::init(machine).await {
        Err(BootstrapError::Node { action, node, source: source @ ExecError::Failed { .. } }) => {
            let cleared = run(machine, "clear away an unfinished start", Cmd::sh(CLEAR)).await?;
            if cleared.text() == "kept" {
                return Err(BootstrapError::Node { action, node, source });
            }
            phase::init(machine).await
        }
        done => done,
    }
}

async fn put_configuration(configuration: &str, machine: &dyn Machine) -> Result<(), BootstrapError> {
    let patches = config::patches().into_iter();
    let files = patches.map(|(name, content)| (format!("{PATCHES}/{name}"), content));
    for (path, content) in files.chain([(CONFIG.to_owned(), configuration.to_owned())]) {
        let put = machine.exec().put(&path, 0o600, content.as_bytes()).await;
        put.map_err(in_node("write kubeadm's configuration", machine))?;
    }
    Ok(())
}

async fn wait_for_answer(
    client: &Client,
    cluster: &Cluster,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let patience = Patience::new("the first answer of the API server", LIMIT, cancelled);
    let ends_before = ends_of_kubelet(machine).await?;
    let mut next_look = Instant::now() + LOOK;
    loop {
        if Instant::now() >= next_look {
            // One that cannot work with its settings ends at once, again and again: no use to wait for it.
            if ends_of_kubelet(machine).await? >= ends_before + CRASHES {
                let (node, seen) = (machine.name().to_string(), last_words(machine).await);
                return Err(BootstrapError::Crashing { node, seen });
            }
            next_look = Instant::now() + LOOK;
        }
        let answer = match api::serves(client).await {
            Ok(true) => return Ok(()),
            Ok(false) => "the namespace kube-system is not there yet".to_owned(),
            Err(error) => api::in_one_line(&error),
        };
        match patience.pause(POLL, &[format!("{}: {answer}", cluster.api_url())]).await {
            Err(BootstrapError::TimedOut { what, limit, mut seen }) => {
                seen.extend(last_words(machine).await);
                return Err(BootstrapError::TimedOut { what, limit, seen });
            }
            result => result?,
        }
    }
}

/// How often the kubelet has ended since this machine exists.
async fn ends_of_kubelet(machine: &dyn Machine) -> Result<u32, BootstrapError> {
    let count = Cmd::sh("cat /var/log/flotilla/init.log* | grep -c 'kubelet: ended' || true");
    Ok(run(machine, "look at the kubelet", count).await?.text().parse().unwrap_or(0))
}

/// What the kubelet said last, and what became of the containers.
async fn last_words(machine: &dyn Machine) -> Vec<String> {
    let script = format!(
        "tail -n 10 /var/log/flotilla/kubelet.log; crictl --runtime-endpoint {CRI_SOCKET} ps -a 2>&1"
    );
    let limit = Some(Duration::from_secs(10));
    match machine.exec().run(Cmd { limit, ..Cmd::sh(script) }).await {
        Ok(output) => output.text().lines().map(str::to_owned).collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let machine = FakeMachine::new(&[], &[("cgroup.controllers", Ok("v1"))]);
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
        assert_eq!(programs(&machine), ["sh -c", "kubeadm init", "sh -c", "kubeadm init"]);
    }

    #[tokio::test]
    async fn a_cluster_with_data_is_never_begun_afresh() {
        let machine = FakeMachine::new(&[], &[("kubeadm init", Err("")), ("etcd/member", Ok("kept"))]);
        let error = initialise_on(&machine).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot initialise the control plane in node demo");
        assert_eq!(programs(&machine), ["sh -c", "kubeadm init", "sh -c"]);
    }

    #[tokio::test]
    async fn a_second_failure_is_the_error() {
        let machine = FakeMachine::new(&[], &[("kubeadm init", Err("")), ("kubeadm init", Err(""))]);
        assert!(initialise_on(&machine).await.is_err());
    }
}
