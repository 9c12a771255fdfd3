//! The native driver keeps to the contract of all drivers, on the real kernel, and does what no fake can. Needs root and a bundle; without
//! them the cases are ignored.
//!
//! This file has its own `main`, because the driver starts the running binary again as PID 1 of a machine and as
//! what enters one: that must happen before a test harness starts threads.

#![expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that these are tests")]

use std::ffi::OsString;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use flotilla_core::Cancel;
use flotilla_core::Cluster;
use flotilla_core::Host;
use flotilla_engine::store::{ClusterStore, WhenBusy};
use flotilla_native::Native;
use flotilla_testkit::contract::Subject;
use flotilla_testkit::{contract, fake, harness, is_root};
use tokio::runtime::Runtime;

mod api_address;
mod attachments;
mod boots;
mod routes;
mod states;

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
    let case = |(name, case): &(&'static str, contract::Case)| -> harness::Case {
        let (case, home, bundle) = (*case, home.clone(), bundle.clone());
        (name, Box::new(move || run(case, &home, &bundle)))
    };
    let own = [attachments::CASES, api_address::CASES, boots::CASES, routes::CASES, states::CASES];
    let cases = contract::SUITES.into_iter().chain(own).flatten();
    harness::run(&args, lacking, cases.map(case).collect())
}

/// Runs a case with nothing of the cluster there before or after, however it ends.
fn run(case: contract::Case, home: &Path, bundle: &str) {
    let mut cluster = fake::cluster_of(SPEC, SUBNET);
    cluster.allocations.pod_subnet = POD_SUBNET.parse().unwrap();
    bundle.clone_into(&mut cluster.allocations.bundle);
    let (store, cancel) = (ClusterStore::new(home), Cancel::new());
    // Another run of these tests may be under way, in a process of its own.
    let _lock = store.lock(cluster.name(), "a test", WhenBusy::Wait, &cancel, drop).unwrap();
    let runtime = Runtime::new().unwrap();
    let host: Arc<dyn Host> = Arc::new(Native::new(home, &cancel));
    clean(&runtime, &host, &cluster);
    let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(case(Subject::of(&host), &cluster))));
    clean(&runtime, &host, &cluster);
    store.remove(cluster.name()).unwrap();
    done.unwrap_or_else(|panic| resume_unwind(panic));
}

fn clean(runtime: &Runtime, host: &Arc<dyn Host>, cluster: &Cluster) {
    runtime.block_on(Subject::of(host).remove_all(cluster));
}

/// The user's state directory, where the real bundle is.
#[expect(clippy::disallowed_methods, reason = "tests find the bundle where the program does")]
fn home() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("FLOTILLA_HOME").or_else(|| Some(set("HOME")?.join(".flotilla"))).unwrap_or_default()
}

/// The digest of a bundle that is finished.
fn bundle(home: &Path) -> Option<String> {
    let bundles = fs::read_dir(home.join("bundles")).into_iter().flatten().flatten();
    let finished = bundles.filter(|bundle| bundle.path().join("rootfs").is_dir());
    finished
        .filter_map(|bundle| bundle.file_name().into_string().ok())
        .find(|digest| digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
