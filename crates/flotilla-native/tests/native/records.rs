//! What is known of a machine, while somebody in the machine would like to change it.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flotilla_core::{Cluster, Cmd, DriverError, Machine, MachineRecord, Membership};
use flotilla_testkit::contract::{Case, Subject, cases};

pub(crate) const CASES: &[(&str, Case)] = cases![
    a_record_is_nowhere_in_the_machine,
    pipes_links_and_endless_files_at_the_place_of_marks_change_nothing,
    a_machine_of_an_earlier_release_is_converted_at_its_next_boot,
    a_machine_whose_record_is_damaged_is_not_booted_and_can_be_removed,
];

const MEMBER: MachineRecord = MachineRecord { membership: Membership::Member };

/// Puts something else at the place of each mark that earlier releases made. A link to a FIFO is the worst of them.
const REPLACE_MARKS: &str = "
rm -rf /var/lib/flotilla && mkdir -p /var/lib/flotilla && cd /var/lib/flotilla
mkfifo initialised
truncate -s 2G joined
ln -s initialised founded
ln -s /proc/kmsg founding";

async fn a_record_is_nowhere_in_the_machine(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    machine.set_record(&MEMBER).await.unwrap();
    let find = "find / -path /proc -prune -o -name 'record.json*' -print; ls -a / /var";
    let found = machine.guest().run(Cmd::sh(find)).await.unwrap().text();
    assert!(!found.contains("record") && found.contains("lib"), "{found}");
}

async fn pipes_links_and_endless_files_at_the_place_of_marks_change_nothing(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    for record in [MEMBER, MachineRecord::default()] {
        let machine = subject.make(cluster).await;
        machine.set_record(&record).await.unwrap();
        machine.guest().run(Cmd::sh(REPLACE_MARKS)).await.unwrap();
        assert_eq!(recorded(subject, cluster).await, record, "it is on");
        subject.stop(cluster).await;
        assert_eq!(recorded(subject, cluster).await, record, "it is off");
        subject.make(cluster).await;
        assert_eq!(recorded(subject, cluster).await, record, "it is on again");
    }
}

async fn a_machine_of_an_earlier_release_is_converted_at_its_next_boot(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    let machine = subject.make(cluster).await;
    machine.guest().write("/var/lib/flotilla/joined", 0o644, b"").await.unwrap();
    fs::remove_file(record_file(cluster)).unwrap();
    assert_eq!(recorded(subject, cluster).await, MEMBER, "it is on");
    subject.stop(cluster).await;
    assert_eq!(recorded(subject, cluster).await, MEMBER, "it is off");
    assert!(!record_file(cluster).exists(), "who only looks changes nothing");
    let machine = subject.make(cluster).await;
    assert!(record_file(cluster).exists());
    assert_eq!(machine.guest().read("/var/lib/flotilla/joined").await.unwrap(), None);
    machine.guest().run(Cmd::sh(REPLACE_MARKS)).await.unwrap();
    assert_eq!(recorded(subject, cluster).await, MEMBER);

    // One that put a pipe there before it was converted keeps nobody waiting, and is not taken for a new machine.
    subject.stop(cluster).await;
    fs::remove_file(record_file(cluster)).unwrap();
    let begun = Instant::now();
    let error = find(subject, cluster).await.record().await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_mins(1));
    assert_damaged(&error);
}

async fn a_machine_whose_record_is_damaged_is_not_booted_and_can_be_removed(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    let machine = subject.make(cluster).await;
    machine.set_record(&MEMBER).await.unwrap();
    subject.stop(cluster).await;
    fs::write(record_file(cluster), "{\"version\":1,").unwrap();
    assert_damaged(&find(subject, cluster).await.record().await.unwrap_err());
    assert_damaged(&subject.ensure(cluster, &cluster.spec.nodes[0].name).await.err().unwrap());
    subject.remove(cluster).await;
    assert_eq!(subject.make(cluster).await.record().await.unwrap(), MachineRecord::default());
}

#[track_caller]
fn assert_damaged(error: &DriverError) {
    let DriverError::Failed { code, hints, .. } = error else { panic!("{error:?}") };
    assert_eq!(code.name, "HOST_STATE_DAMAGED");
    assert!(hints[0].contains("echo"), "{hints:?}");
}

async fn find(subject: Subject<'_>, cluster: &Cluster) -> std::sync::Arc<dyn Machine> {
    subject.machines(cluster).await[&cluster.spec.nodes[0].name].clone()
}

async fn recorded(subject: Subject<'_>, cluster: &Cluster) -> MachineRecord {
    find(subject, cluster).await.record().await.unwrap()
}

fn record_file(cluster: &Cluster) -> PathBuf {
    crate::machine_directory(cluster).join("record.json")
}
