//! What others have on the host changes no test: the tests again, on a host that is full of it.

use std::net::TcpListener;
use std::process::Output;

use flotilla_files::{FileLock, Holder};
use flotilla_linux::cgroup::{Group, Layout};
use flotilla_linux::host::Command;
use flotilla_testkit::own_network;

use super::stopped::put_cluster;
use super::{home, may_be_root};

/// Modules with tests that ask for what a cluster needs of the host's network.
const MODULES: [&str; 9] = [
    "absent",
    "control_planes",
    "dry_run",
    "file",
    "kubeconfig",
    "node_update",
    "refused",
    "start_bundle",
    "stopped",
];

/// Ports that the tests name, and those that clusters have.
const PORTS: [u16; 6] = [80, 6443, 8080, 8081, 8443, 9090];

/// A route to all services, and links with the ranges that the tests' clusters, and those of people, have.
const LINKS: &str = "
ip route add 10.96.0.0/12 via 192.0.2.1
ip link add vpn0 type bridge
ip link add flo00000000 type bridge
ip link set flo00000000 alias flotilla/00000000/demo
ip address add 10.213.77.1/24 dev flo00000000
ip address add 10.244.0.1/16 dev vpn0
ip link set flo00000000 up
ip link set vpn0 up
ip route add 10.0.0.0/8 dev vpn0";

#[test]
fn no_test_depends_on_what_others_have_on_the_host() {
    if !may_be_root() {
        return;
    }
    // In a thread of its own, whose network stands for the host's: other tests may follow in this thread.
    std::thread::spawn(run_beside_others).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that it is one")]
fn run_beside_others() {
    own_network();
    Command::new("sh").args(["-euc", LINKS]).run().unwrap();
    let _listeners = PORTS.map(|port| TcpListener::bind(("0.0.0.0", port)).unwrap());
    let name = format!("flotilla/demo-{}", std::process::id());
    let (other, group) = (home(), Group::new(&Layout::of_host().unwrap(), &name).unwrap());
    put_cluster(&other, "- name: demo\n  role: control-plane\n", &["demo"]);
    let holder = Holder { pid: 1, what: "a test".to_owned(), since: "2026-11-05T10:00:00Z".to_owned() };
    let _locked = FileLock::try_acquire(&other.state().join("clusters/demo/lock"), &holder).unwrap().unwrap();
    group.create().unwrap();
    let again = run_again();
    group.remove().unwrap();
    let said = [again.stdout, again.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(again.status.success() && !said[0].contains("running 0 tests"), "{}", said.concat());
}

/// Runs the tests of the modules in the network of this thread.
#[expect(clippy::disallowed_methods, reason = "all that it says is shown if it fails")]
fn run_again() -> Output {
    let mut again = std::process::Command::new(std::env::current_exe().expect("the tests' own path"));
    again.args(MODULES.map(|module| format!("cli::{module}::"))).output().expect("the tests run")
}
