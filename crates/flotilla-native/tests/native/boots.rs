//! What tells one boot of a machine from the next.

use std::fs;

use flotilla_core::Cluster;
use flotilla_testkit::contract::{Case, Subject, cases};

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

pub(crate) const CASES: &[(&str, Case)] = cases![each_boot_has_an_identifier_of_its_own,];

async fn each_boot_has_an_identifier_of_its_own(subject: Subject<'_>, cluster: &Cluster) {
    let mut seen = vec![fs::read_to_string(BOOT).unwrap()];
    for _ in 0..2 {
        let machine = subject.make(cluster).await;
        let read = async || String::from_utf8(machine.guest().read(BOOT).await.unwrap().unwrap()).unwrap();
        let boot = read().await;
        assert_eq!(boot, read().await, "it stays the same while the machine is on");
        assert!(!seen.contains(&boot), "{boot} was seen before: {seen:?}");
        seen.push(boot);
        subject.stop(cluster).await;
    }
}
