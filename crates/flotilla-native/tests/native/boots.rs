//! What tells one boot of a machine from the next.

use std::fs;

use flotilla_core::Cluster;
use flotilla_testkit::contract::{Case, Subject};

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

pub(crate) const CASES: &[(&str, Case)] =
    &[("each_boot_has_an_identifier_of_its_own", |subject, cluster| Box::pin(identifiers(subject, cluster)))];

async fn identifiers(subject: Subject<'_>, cluster: &Cluster) {
    let node = &cluster.spec.nodes[0].name;
    subject.make_network(cluster).await;
    let mut seen = vec![fs::read_to_string(BOOT).unwrap()];
    for _ in 0..2 {
        let machine = subject.ensure(cluster, node).await.unwrap();
        let read = async || String::from_utf8(machine.guest().read(BOOT).await.unwrap().unwrap()).unwrap();
        let boot = read().await;
        assert_eq!(boot, read().await, "it stays the same while the machine is on");
        assert!(!seen.contains(&boot), "{boot} was seen before: {seen:?}");
        seen.push(boot);
        subject.stop_node(cluster, node).await;
    }
}
