//! The network of this host keeps to the contract of all networks without a machine of its own: whatever is plugged in, it
//! knows only ports. Each case is in a network namespace of its own. Needs root and nft.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use flotilla_core::{BundleLayout, Cancel, Driver, Host, NetworkPlan};
use flotilla_linux::host::Command;
use flotilla_linux::net;
use flotilla_native::{BridgeNetwork, LocalHost, NativeDriver};
use flotilla_testkit::contract::{Subject, networks};
use flotilla_testkit::fake::{self, Calls, FakeBundles, FakeDriver};
use flotilla_testkit::{is_root, skip};
use tokio::runtime::Runtime;

#[test]
fn the_network_keeps_to_the_contract_whatever_is_plugged_in() {
    if !is_root() {
        skip("network namespaces need root");
        return;
    }
    if Command::new("/usr/sbin/nft").arg("--version").run().is_err() {
        skip("there is no /usr/sbin/nft");
        return;
    }
    for (name, case) in networks::CASES {
        println!("{name}");
        let running = std::thread::spawn(move || {
            net::leave().unwrap();
            let home = flotilla_testkit::directory();
            let cluster = fake::cluster("10.213.0.0/24");
            // A bundle whose nft is the host's.
            let bundle = BundleLayout::of(home.path(), &NetworkPlan::of(&cluster).bundle);
            std::fs::create_dir_all(bundle.rootfs().parent().unwrap()).unwrap();
            symlink("/", bundle.rootfs()).unwrap();
            let driver = FakeDriver::default();
            let network = BridgeNetwork::new(home.path());
            let host: Arc<dyn Host> =
                Arc::new(LocalHost::new(home.path(), Arc::new(network), vec![Arc::new(driver)]));
            let bundles = FakeBundles::new(&Calls::default());
            let subject = Subject::new(&host, host.drivers()[0].name(), &bundles);
            Runtime::new().unwrap().block_on(async {
                case(subject, &cluster).await;
                subject.remove_all(&cluster).await;
            });
            let left: Vec<_> = net::Net::here().unwrap().links().unwrap();
            assert!(left.iter().all(|link| link.name == "lo"), "{left:?}");
        });
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

#[test]
fn a_host_has_one_network_and_any_drivers() {
    let home = flotilla_testkit::directory();
    let other = FakeDriver::default().named("other", |_| {});
    let drivers: Vec<Arc<dyn Driver>> =
        vec![Arc::new(NativeDriver::new(home.path(), &Cancel::new())), Arc::new(other)];
    let host = LocalHost::new(home.path(), Arc::new(BridgeNetwork::new(home.path())), drivers);
    let names: Vec<_> = host.drivers().iter().map(|driver| driver.name().to_string()).collect();
    assert_eq!(names, ["native", "other"]);
}
