//! What nodes have of the host: directories and ports.

use std::fs;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use flotilla_core::Cluster;
use flotilla_core::{Cmd, DriverError, NetworkState};
use flotilla_testkit::contract::{Case, Subject, cases};

use crate::sh;

pub(crate) const CASES: &[(&str, Case)] = cases![
    a_directory_of_the_host_is_seen_and_written_to,
    what_is_read_only_is_so_with_all_that_is_mounted_below,
    mounts_change_when_a_machine_is_stopped_and_started,
    a_folder_that_is_not_there_is_told_before_anything_is_made,
    a_port_of_the_host_leads_to_a_machine_that_is_on,
];

/// A port that nobody has, of an address in the loopback range.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.9.9.9:0").unwrap().local_addr().unwrap()
}

fn with_mounts(cluster: &Cluster, mounts: &[String]) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.spec.nodes[0].mounts = mounts.iter().map(|mount| mount.parse().unwrap()).collect();
    cluster
}

async fn a_directory_of_the_host_is_seen_and_written_to(subject: Subject<'_>, cluster: &Cluster) {
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("file"), "of the host").unwrap();
    let path = host.path().display();
    let mounts = [format!("{path}/file:/etc/contract/file:ro"), format!("{path}:/srv/deep/er")];
    let machine = subject.make(&with_mounts(cluster, &mounts)).await;
    assert_eq!(sh(&*machine, "cat /srv/deep/er/file /etc/contract/file").await, "of the hostof the host");
    sh(&*machine, "echo of the node >/srv/deep/er/answer").await;
    assert_eq!(fs::read_to_string(host.path().join("answer")).unwrap(), "of the node\n");
    assert_eq!(sh(&*machine, "echo >/etc/contract/file || echo read-only").await, "read-only");
    // Nothing of the host's is taken along when the machine goes.
    subject.remove_all(cluster).await;
    assert_eq!(fs::read_to_string(host.path().join("file")).unwrap(), "of the host");
}

async fn what_is_read_only_is_so_with_all_that_is_mounted_below(subject: Subject<'_>, cluster: &Cluster) {
    // Every host has something mounted below /dev.
    let machine = subject.make(&with_mounts(cluster, &["/dev:/srv/dev:ro".to_owned()])).await;
    // Of mounts on the same directory only the last is in reach.
    let below =
        r#"awk '$2 ~ "^/srv/dev" {last[$2] = $4} END {for (path in last) print last[path]}' /proc/mounts"#;
    let mounts = sh(&*machine, below).await;
    assert!(mounts.lines().count() > 1, "{mounts}");
    assert!(mounts.lines().all(|options| options.split(',').any(|option| option == "ro")), "{mounts}");
}

async fn mounts_change_when_a_machine_is_stopped_and_started(subject: Subject<'_>, cluster: &Cluster) {
    let host = tempfile::tempdir().unwrap();
    let mounts = [format!("{}:/srv/one", host.path().display())];
    fs::write(host.path().join("file"), "").unwrap();
    let list = "ls /srv/one /srv/two 2>/dev/null; true";
    let machine = subject.make(cluster).await;
    assert_eq!(sh(&*machine, list).await, "");
    subject.stop_node(cluster, machine.name()).await;
    let machine = subject.make(&with_mounts(cluster, &mounts)).await;
    assert_eq!(sh(&*machine, list).await, "/srv/one:\nfile");
    // A directory that was removed since does not matter; one that is mounted again must exist.
    drop(host);
    assert_eq!(subject.check(&with_mounts(cluster, &mounts)).await, []);
    let more = [mounts[0].clone(), "/none:/srv/two".to_owned()];
    let findings = subject.check(&with_mounts(cluster, &more)).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
}

async fn a_folder_that_is_not_there_is_told_before_anything_is_made(subject: Subject<'_>, cluster: &Cluster) {
    let cluster = with_mounts(cluster, &["/no/such/directory:/srv".to_owned(), "/none:/srv/two".to_owned()]);
    let findings = subject.check(&cluster).await;
    let codes: Vec<_> = findings.iter().map(|refusal| refusal.finding.code).collect();
    assert_eq!(codes, ["HOST_NO_MOUNT", "HOST_NO_MOUNT"]);
    subject.make_network(&cluster).await;
    let ensured = subject.ensure(&cluster, &cluster.spec.primary().name).await;
    let Err(DriverError::Failed { what, code, .. }) = ensured else { panic!("its directory does not exist") };
    assert_eq!(
        (what.as_str(), code.name),
        ("cannot mount /no/such/directory into node te-contract", codes[0])
    );
    assert!(subject.found(&cluster).await.is_empty());
}

async fn a_port_of_the_host_leads_to_a_machine_that_is_on(subject: Subject<'_>, cluster: &Cluster) {
    let (mut cluster, free) = (cluster.clone(), free_port());
    cluster.spec.nodes[0].ports = vec![format!("{free}:4000").parse().unwrap()];
    assert_eq!(subject.check(&cluster).await, []);
    let machine = subject.make(&cluster).await;
    let listening = machine.guest().run(Cmd::new(["nc", "-l", "-p", "4000", "-e", "echo", "hello"]));
    let (served, heard) = tokio::join!(listening, heard(free));
    served.unwrap();
    assert_eq!(heard, "hello\n");
    subject.stop_node(&cluster, machine.name()).await;
    let refused = TcpStream::connect(free).unwrap_err();
    assert_eq!(
        refused.kind(),
        io::ErrorKind::ConnectionRefused,
        "no program listens in a machine that is off"
    );
    assert_eq!(
        subject.network_state(&cluster).await,
        NetworkState::Outdated,
        "the port comes back with the machine"
    );
}

/// What is said to who connects to the port, as soon as somebody listens there.
async fn heard(port: SocketAddr) -> String {
    loop {
        let said = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            TcpStream::connect(port)?.read_to_string(&mut text)?;
            io::Result::Ok(text)
        });
        match said.await.unwrap() {
            Ok(text) => return text,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
