//! The native driver keeps to the contract of all drivers, on the real kernel, and does what no fake can. Needs root and a bundle; without
//! them the cases are ignored.
//!
//! This file has its own `main`, because the driver starts the running binary again as PID 1 of a machine and as
//! what enters one: that must happen before a test harness starts threads.

#![expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that these are tests")]

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use flotilla_bundle::{Bundle, BundleStore};
use flotilla_core::Cancel;
use flotilla_core::{Allocations, Cluster, Cmd, Driver, Host, Machine};
use flotilla_engine::Fleet;
use flotilla_engine::store::{ClusterStore, WhenBusy};
use flotilla_native::{BridgeNetwork, LocalHost, NativeDriver};
use flotilla_spec::Isolation;
use flotilla_testkit::contract::Subject;
use flotilla_testkit::{contract, fake, harness, is_root};
use tokio::runtime::Runtime;

mod api_address;
mod attachments;
mod boots;
mod records;
mod routes;
mod states;
mod stores;

/// Its addresses are from the ranges that documents use: no host has them.
const SPEC: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: te-contract
kubernetesVersion: v1.37.1
nodes:
- {name: te-contract, role: control-plane}
";
const SUBNET: &str = "198.51.100.0/24";
const POD_SUBNET: &str = "203.0.113.0/24";

/// It mounts the host's `/dev`, whose owners cannot be translated: such a mount is refused.
const NOT_IN_USER_NAMESPACES: [&str; 1] = ["what_is_read_only_is_so_with_all_that_is_mounted_below"];

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let stages = [
        flotilla_node::stage::run_if_stage,
        flotilla_linux::enter::run_if_stage,
        flotilla_linux::sandbox::run_if_stage,
    ];
    if let Some(status) = stages.iter().find_map(|run_if_stage| run_if_stage(&args)) {
        return u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    let home = home();
    let bundle = bundle(&home);
    let lacking = (!is_root()).then_some("root").or(bundle.is_none().then_some("a bundle"));
    let bundle = bundle.unwrap_or_default();
    let case = |(name, case): &(&'static str, contract::Case), isolation| -> harness::Case {
        let (case, home, bundle) = (*case, home.clone(), bundle.clone());
        (name, Box::new(move || run(case, &home, &bundle, isolation)))
    };
    let own = [
        attachments::CASES,
        api_address::CASES,
        boots::CASES,
        records::CASES,
        routes::CASES,
        states::CASES,
        stores::CASES,
    ];
    let cases: Vec<_> = contract::SUITES.into_iter().chain(own).flatten().collect();
    let plain = cases.iter().map(|one| case(one, Isolation::None));
    // What has to do with machines is the same in a user namespace.
    let in_namespaces = cases.iter().filter(|(name, _)| !NOT_IN_USER_NAMESPACES.contains(name));
    let in_namespaces =
        in_namespaces.map(|(name, case)| (in_user_namespace(name), *case)).collect::<Vec<_>>();
    let in_namespaces = in_namespaces.iter().map(|one| case(one, Isolation::User));
    harness::run(&args, lacking, plain.chain(in_namespaces).collect())
}

/// The name of a case whose machines have user namespaces. There are few, and they are needed to the end.
fn in_user_namespace(name: &str) -> &'static str {
    format!("in_a_user_namespace_{name}").leak()
}

/// Runs a case with nothing of the cluster there before or after, however it ends. All its nodes have this isolation.
fn run(case: contract::Case, home: &Path, bundle: &str, isolation: Isolation) {
    let mut cluster = fake::cluster_of(SPEC, SUBNET);
    // All nodes' pods have to fit into the range of the tests.
    cluster.spec.network.node_pod_prefix = 27;
    cluster.allocations =
        Allocations::new(SUBNET.parse().unwrap(), POD_SUBNET.parse().unwrap(), bundle.to_owned());
    cluster.allocate().unwrap();
    cluster.spec.node_defaults.isolation = isolation;
    cluster.spec.nodes[0].isolation = isolation;
    let (store, cancel) = (ClusterStore::new(home), Cancel::new());
    // Another run of these tests may be under way, in a process of its own.
    let locked = store.lock(cluster.name(), "a test", WhenBusy::Wait, &cancel, drop).unwrap();
    let runtime = Runtime::new().unwrap();
    let driver = NativeDriver::new(home, &cancel);
    let name = driver.name().clone();
    let network = Arc::new(BridgeNetwork::new(home));
    let host: Arc<dyn Host> = Arc::new(LocalHost::new(home, network, vec![Arc::new(driver)]));
    let bundles = BundleStore::open(home.to_owned(), cancel.clone()).unwrap();
    let subject = Subject::new(&host, &name, &bundles);
    let clean = |cluster: &Cluster| runtime.block_on(subject.remove_all(cluster));
    clean(&cluster);
    let hosts = [Arc::clone(&host)];
    runtime.block_on(Fleet::new(&hosts).allocate_ids(&mut cluster, &[])).unwrap();
    let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(case(subject, &cluster))));
    clean(&cluster);
    locked.remove().unwrap();
    done.unwrap_or_else(|panic| resume_unwind(panic));
}

/// What a program in a machine prints.
async fn sh(machine: &dyn Machine, line: &str) -> String {
    machine.guest().run(Cmd::sh(line)).await.unwrap().text()
}

/// The directory of the cluster's first machine.
fn machine_directory(cluster: &Cluster) -> PathBuf {
    home().join("clusters").join(cluster.name().as_ref()).join("nodes/te-contract")
}

/// The user's state directory, where the real bundle is.
#[expect(clippy::disallowed_methods, reason = "tests find the bundle where the program does")]
fn home() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("FLOTILLA_HOME").or_else(|| Some(set("HOME")?.join(".flotilla"))).unwrap_or_default()
}

/// The digest of the bundle that `FLOTILLA_TEST_BUNDLE` names: a digest, its beginning, or a version. Without it the newest one
/// of the default version, if there is one.
#[expect(clippy::disallowed_methods, reason = "tests read their own switches")]
fn bundle(home: &Path) -> Option<String> {
    let store = BundleStore::open(home.to_owned(), Cancel::new()).unwrap();
    let digest = |bundle: Bundle| bundle.manifest.digest;
    match std::env::var("FLOTILLA_TEST_BUNDLE").ok().filter(|which| !which.is_empty()) {
        Some(which) => Some(digest(store.find(&which).unwrap())),
        None => store.find(store.default_version()).ok().map(digest),
    }
}
