//! What every driver must do, whatever its machines are made of.
//!
//! Each case begins and ends with nothing of the cluster there, which is for the caller to see to: `remove_all`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;

use flotilla_core::Cluster;
use flotilla_core::{Changed, Cmd, Driver, DriverError, GuestError, Machine, MachineState, Power};
use flotilla_engine::nodes::Nodes;
use flotilla_spec::{ClusterName, NodeName, NodeSpec, Role};
use futures::future::BoxFuture;

use crate::fake::Answer;

/// A case: it panics when the driver does not keep to the contract.
pub type Case = for<'a> fn(&'a dyn Driver, &'a Cluster) -> BoxFuture<'a, ()>;

macro_rules! cases {
    ($($name:ident,)*) => {
        &[$((stringify!($name), |driver, cluster| Box::pin($name(driver, cluster))),)*]
    };
}

/// All of them, by name.
pub const CASES: &[(&str, Case)] = cases![
    nothing_is_there_before_it_is_made,
    a_network_is_made_once_and_seen_by_others,
    ensuring_twice_is_one_machine,
    a_stopped_machine_is_kept_and_comes_back,
    a_machine_that_is_off_runs_nothing,
    removing_and_stopping_nothing_succeeds,
    a_removed_machine_begins_anew,
    removing_all_leaves_nothing,
    programs_run_with_their_environment_and_input,
    a_program_that_fails_is_an_error_with_its_last_words,
    files_are_kept_byte_for_byte,
    files_are_copied_in_and_out,
    what_is_not_there_cannot_be_copied,
    a_network_with_other_ports_is_not_whole,
    a_machine_knows_the_others_of_its_time_until_it_is_told_of_more,
];

const GREET: &str = r#"echo "$GREETING, $(cat)""#;
const FAIL: &str = "echo going; echo gone >&2; exit 3";
const MODE: &str = "stat -c %a /etc/contract/file";

/// What the programs of the cases answer, for machines that run none.
pub const ANSWERS: &[(&str, Answer)] =
    &[(GREET, Ok("hello, world\n")), (FAIL, Err("gone")), (MODE, Ok("640\n"))];

const ON: MachineState = MachineState { power: Power::On, intact: true };
const OFF: MachineState = MachineState { power: Power::Off, intact: false };

async fn nothing_is_there_before_it_is_made(driver: &dyn Driver, cluster: &Cluster) {
    assert_eq!(found(driver, cluster).await, []);
    assert!(!has_network(driver, cluster).await);
}

async fn a_network_is_made_once_and_seen_by_others(driver: &dyn Driver, cluster: &Cluster) {
    make_network(driver, cluster).await;
    make_network(driver, cluster).await;
    assert!(has_network(driver, cluster).await);
    let stranger: ClusterName = "stranger".parse().expect("it is a name");
    let subnet = cluster.allocations.subnet;
    for (name, sees_it) in [(&stranger, true), (cluster.name(), false)] {
        let used = driver.subnets_in_use(name).await.expect("subnets can be listed");
        assert_eq!(used.iter().any(|used| used.range == subnet), sees_it, "{name} sees {used:?}");
    }
}

async fn ensuring_twice_is_one_machine(driver: &dyn Driver, cluster: &Cluster) {
    let first = make(driver, cluster).await;
    put(first.as_ref(), "/run/contract", b"still the same").await;
    let again = make(driver, cluster).await;
    assert_eq!((again.name(), again.state()), (&node(cluster), ON));
    assert_eq!(get(again.as_ref(), "/run/contract").await.as_deref(), Some(&b"still the same"[..]));
    assert_eq!(found(driver, cluster).await, [(node(cluster), ON)]);
}

async fn a_stopped_machine_is_kept_and_comes_back(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    put(machine.as_ref(), "/etc/contract", b"disk").await;
    put(machine.as_ref(), "/run/contract", b"memory").await;
    assert_eq!(stop(driver, cluster).await, Changed::Yes);
    assert_eq!(found(driver, cluster).await, [(node(cluster), OFF)]);
    assert_eq!(stop(driver, cluster).await, Changed::No);
    let machine = make(driver, cluster).await;
    assert_eq!(found(driver, cluster).await, [(node(cluster), ON)]);
    assert_eq!(get(machine.as_ref(), "/etc/contract").await.as_deref(), Some(&b"disk"[..]));
    assert_eq!(get(machine.as_ref(), "/run/contract").await, None);
}

async fn a_machine_that_is_off_runs_nothing(driver: &dyn Driver, cluster: &Cluster) {
    make(driver, cluster).await;
    stop(driver, cluster).await;
    let machines = driver.find(cluster.name()).await.expect("machines can be found");
    let guest = machines[0].guest();
    let errors = [
        guest.run(Cmd::new(["true"])).await.expect_err("nothing runs there"),
        guest.write("/etc/contract", 0o644, b"").await.expect_err("nothing is written there"),
        guest.read("/etc/hostname").await.expect_err("nothing is read there"),
        guest.copy_in(file(b""), "/etc/contract", 0o644).await.expect_err("nothing is copied there"),
        guest.copy_out("/etc/hostname", file(b"")).await.expect_err("nothing is copied from there"),
    ];
    for error in errors {
        assert!(matches!(error, GuestError::Off { .. }), "{error:?}");
    }
}

async fn removing_and_stopping_nothing_succeeds(driver: &dyn Driver, cluster: &Cluster) {
    assert_eq!(stop(driver, cluster).await, Changed::No);
    assert_eq!(remove(driver, cluster).await, Changed::No);
    assert_eq!(remove_all(driver, cluster).await, Changed::No);
}

async fn a_removed_machine_begins_anew(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    put(machine.as_ref(), "/etc/contract", b"gone with it").await;
    assert_eq!(remove(driver, cluster).await, Changed::Yes);
    assert_eq!(found(driver, cluster).await, []);
    assert!(has_network(driver, cluster).await, "the network is the cluster's, not the machine's");
    let machine = make(driver, cluster).await;
    assert_eq!(get(machine.as_ref(), "/etc/contract").await, None);
}

async fn removing_all_leaves_nothing(driver: &dyn Driver, cluster: &Cluster) {
    make(driver, cluster).await;
    assert_eq!(remove_all(driver, cluster).await, Changed::Yes);
    assert_eq!(found(driver, cluster).await, []);
    assert!(!has_network(driver, cluster).await);
    assert_eq!(remove_all(driver, cluster).await, Changed::No);
}

async fn programs_run_with_their_environment_and_input(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    let env = vec![("GREETING".to_owned(), "hello".to_owned())];
    let cmd = Cmd { env, stdin: b"world".to_vec(), ..Cmd::sh(GREET) };
    let output = machine.guest().run(cmd).await.expect("it greets");
    assert_eq!(output.text(), "hello, world");
}

async fn a_program_that_fails_is_an_error_with_its_last_words(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    let error = machine.guest().run(Cmd::sh(FAIL)).await.expect_err("it fails");
    let GuestError::Failed { node: at, tail, .. } = &error else { panic!("{error:?}") };
    assert_eq!(at, node(cluster).as_ref());
    assert!(tail.iter().any(|line| line == "gone"), "{tail:?}");
}

async fn files_are_kept_byte_for_byte(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    let machine = machine.as_ref();
    assert_eq!(get(machine, "/etc/contract/file").await, None);
    let bytes: Vec<u8> = (0..=255).collect();
    machine.guest().write("/etc/contract/file", 0o640, &bytes).await.expect("its folder is made");
    assert_eq!(get(machine, "/etc/contract/file").await, Some(bytes));
    assert_eq!(machine.guest().run(Cmd::sh(MODE)).await.expect("it is there").text(), "640");
    machine.guest().write("/etc/contract/file", 0o640, b"").await.expect("it is replaced");
    assert_eq!(get(machine, "/etc/contract/file").await, Some(Vec::new()));
}

async fn files_are_copied_in_and_out(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let (path, guest) = ("/etc/contract/deep/file", machine.guest());
    guest.copy_in(file(&bytes), path, 0o644).await.expect("its folder is made");
    assert_eq!(get(machine.as_ref(), path).await, Some(bytes.clone()));
    let target = file(b"");
    let own = target.try_clone().expect("it is open");
    assert_eq!(guest.copy_out(path, own).await.expect("it can be read"), 0o644);
    assert_eq!(content(target), bytes);
    guest.copy_in(file(b""), path, 0o644).await.expect("it is replaced");
    assert_eq!(get(machine.as_ref(), path).await, Some(Vec::new()));
}

async fn what_is_not_there_cannot_be_copied(driver: &dyn Driver, cluster: &Cluster) {
    let machine = make(driver, cluster).await;
    let error = machine.guest().copy_out("/etc/contract/none", file(b"")).await.expect_err("it is not there");
    let GuestError::File { node: at, path, source, .. } = &error else { panic!("{error:?}") };
    assert_eq!((at.as_str(), path.as_str()), (node(cluster).as_ref(), "/etc/contract/none"));
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
}

async fn a_network_with_other_ports_is_not_whole(driver: &dyn Driver, cluster: &Cluster) {
    let with_ports = |ports: &[&str]| {
        let mut cluster = cluster.clone();
        cluster.spec.nodes[0].ports = ports.iter().map(|port| port.parse().expect("a port")).collect();
        cluster
    };
    make_network(driver, cluster).await;
    let one = with_ports(&["127.9.9.9:8080:80"]);
    assert!(!has_network(driver, &one).await, "a port is missing");
    make_network(driver, &one).await;
    assert!(has_network(driver, &one).await);
    let two = with_ports(&["127.9.9.9:8080:81", "127.9.9.9:53:53/udp"]);
    assert!(!has_network(driver, &two).await, "the port leads elsewhere");
    driver.ensure_routes(&two).await.expect("ports follow the nodes");
    assert!(has_network(driver, &two).await);
    assert!(!has_network(driver, cluster).await, "there are ports that nobody wants");
    make_network(driver, cluster).await;
    assert!(has_network(driver, cluster).await);
}

async fn a_machine_knows_the_others_of_its_time_until_it_is_told_of_more(
    driver: &dyn Driver,
    cluster: &Cluster,
) {
    assert!(are_configured(driver, cluster).await, "there is nobody to know anything");
    make(driver, cluster).await;
    assert!(are_configured(driver, cluster).await);
    let mut larger = cluster.clone();
    let other: NodeName = "te-other".parse().expect("it is a name");
    larger.spec.network.node_pod_prefix = 26;
    larger.spec.nodes.push(NodeSpec::plain(other, Role::Worker));
    larger.allocate().expect("there is room");
    assert!(!are_configured(driver, &larger).await, "it has not heard of the other");
    configure(driver, &larger).await;
    assert!(are_configured(driver, &larger).await && !are_configured(driver, cluster).await);
    configure(driver, cluster).await;
    assert!(are_configured(driver, cluster).await, "the other is forgotten");
}

fn node(cluster: &Cluster) -> NodeName {
    cluster.spec.primary().name.clone()
}

async fn make_network(driver: &dyn Driver, cluster: &Cluster) {
    driver.ensure_network(cluster).await.expect("the network can be made");
}

async fn has_network(driver: &dyn Driver, cluster: &Cluster) -> bool {
    driver.has_network(cluster).await.expect("the network can be looked at")
}

async fn make(driver: &dyn Driver, cluster: &Cluster) -> Arc<dyn Machine> {
    make_network(driver, cluster).await;
    ensure(driver, cluster, &node(cluster)).await.expect("the machine can be made")
}

/// Makes, boots or repairs a machine, as the engine does.
pub async fn ensure(
    driver: &dyn Driver,
    cluster: &Cluster,
    name: &NodeName,
) -> Result<Arc<dyn Machine>, DriverError> {
    let was_on = machines(driver, cluster).await.get(name).is_some_and(|it| it.state().power == Power::On);
    let node = cluster.node(name).expect("the cluster has the node");
    Nodes::of(driver).ensure(cluster, &node, was_on).await
}

/// Tells all machines that are on of all others, as the engine does.
pub async fn configure(driver: &dyn Driver, cluster: &Cluster) -> Changed {
    let machines = machines(driver, cluster).await;
    Nodes::of(driver).configure(cluster, &machines).await.expect("machines can be configured")
}

async fn are_configured(driver: &dyn Driver, cluster: &Cluster) -> bool {
    let machines = machines(driver, cluster).await;
    Nodes::of(driver).are_configured(cluster, &machines).await.expect("machines can be asked")
}

async fn machines(driver: &dyn Driver, cluster: &Cluster) -> BTreeMap<NodeName, Arc<dyn Machine>> {
    let found = driver.find(cluster.name()).await.expect("machines can be found");
    found.into_iter().map(|machine| (machine.name().clone(), machine)).collect()
}

async fn found(driver: &dyn Driver, cluster: &Cluster) -> Vec<(NodeName, MachineState)> {
    let found = driver.find(cluster.name()).await.expect("machines can be found");
    found.iter().map(|machine| (machine.name().clone(), machine.state())).collect()
}

async fn stop(driver: &dyn Driver, cluster: &Cluster) -> Changed {
    driver.stop(cluster.name(), &node(cluster)).await.expect("the machine can be stopped")
}

async fn remove(driver: &dyn Driver, cluster: &Cluster) -> Changed {
    driver.remove(cluster.name(), &node(cluster)).await.expect("the machine can be removed")
}

async fn remove_all(driver: &dyn Driver, cluster: &Cluster) -> Changed {
    driver.remove_all(cluster.name()).await.expect("everything can be removed")
}

/// A file of the host's with some bytes, to be read from its start.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file without a name");
    file.write_all(bytes).expect("it can be written to");
    file.rewind().expect("it has a start");
    file
}

fn content(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().expect("it has a start");
    file.read_to_end(&mut bytes).expect("it can be read");
    bytes
}

async fn put(machine: &dyn Machine, path: &str, bytes: &[u8]) {
    machine.guest().write(path, 0o644, bytes).await.expect("a file can be written");
}

async fn get(machine: &dyn Machine, path: &str) -> Option<Vec<u8>> {
    machine.guest().read(path).await.expect("a file can be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, FakeDriver};

    #[tokio::test]
    async fn the_fake_driver_keeps_to_the_contract() {
        for (name, case) in CASES {
            println!("{name}");
            case(&FakeDriver::answering(ANSWERS), &fake::cluster("10.213.0.0/24")).await;
        }
    }
}
