//! What nodes have of the host: folders and ports.

use std::fs;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::Cluster;
use flotilla_core::{Cmd, Driver, DriverError, Machine};
use flotilla_testkit::contract::{self, Case};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("a_folder_of_the_host_is_seen_and_written_to", |driver, cluster| Box::pin(folders(driver, cluster))),
    ("what_is_read_only_is_so_with_all_that_is_mounted_below", |driver, cluster| {
        Box::pin(read_only(driver, cluster))
    }),
    ("mounts_change_when_a_machine_is_stopped_and_started", |driver, cluster| {
        Box::pin(changed_mounts(driver, cluster))
    }),
    ("a_folder_that_is_not_there_is_told_before_anything_is_made", |driver, cluster| {
        Box::pin(missing(driver, cluster))
    }),
    ("a_port_of_the_host_leads_to_a_machine_that_is_on", |driver, cluster| Box::pin(port(driver, cluster))),
];

/// The address and the port that the cases forward: of the loopback range, but one that nobody uses.
const PORT: &str = "127.9.9.9:8088";

fn with_mounts(cluster: &Cluster, mounts: &[String]) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.spec.nodes[0].mounts = mounts.iter().map(|mount| mount.parse().unwrap()).collect();
    cluster
}

async fn ensure(driver: &dyn Driver, cluster: &Cluster) -> Arc<dyn Machine> {
    driver.ensure_network(cluster).await.unwrap();
    contract::ensure(driver, cluster, &cluster.spec.primary().name).await.unwrap()
}

async fn sh(machine: &dyn Machine, line: &str) -> String {
    machine.guest().run(Cmd::sh(line)).await.unwrap().text()
}

async fn folders(driver: &dyn Driver, cluster: &Cluster) {
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("file"), "of the host").unwrap();
    let path = host.path().display();
    let mounts = [format!("{path}/file:/etc/contract/file:ro"), format!("{path}:/srv/deep/er")];
    let machine = ensure(driver, &with_mounts(cluster, &mounts)).await;
    assert_eq!(sh(&*machine, "cat /srv/deep/er/file /etc/contract/file").await, "of the hostof the host");
    sh(&*machine, "echo of the node >/srv/deep/er/answer").await;
    assert_eq!(fs::read_to_string(host.path().join("answer")).unwrap(), "of the node\n");
    assert_eq!(sh(&*machine, "echo >/etc/contract/file || echo read-only").await, "read-only");
    // Nothing of the host's is taken along when the machine goes.
    driver.remove_all(cluster.name()).await.unwrap();
    assert_eq!(fs::read_to_string(host.path().join("file")).unwrap(), "of the host");
}

async fn read_only(driver: &dyn Driver, cluster: &Cluster) {
    // Every host has something mounted below /dev.
    let machine = ensure(driver, &with_mounts(cluster, &["/dev:/srv/dev:ro".to_owned()])).await;
    // Of mounts on the same folder only the last is in reach.
    let below =
        r#"awk '$2 ~ "^/srv/dev" {last[$2] = $4} END {for (path in last) print last[path]}' /proc/mounts"#;
    let mounts = sh(&*machine, below).await;
    assert!(mounts.lines().count() > 1, "{mounts}");
    assert!(mounts.lines().all(|options| options.split(',').any(|option| option == "ro")), "{mounts}");
}

async fn changed_mounts(driver: &dyn Driver, cluster: &Cluster) {
    let host = tempfile::tempdir().unwrap();
    let mounts = [format!("{}:/srv/one", host.path().display())];
    fs::write(host.path().join("file"), "").unwrap();
    let list = "ls /srv/one /srv/two 2>/dev/null; true";
    let machine = ensure(driver, cluster).await;
    assert_eq!(sh(&*machine, list).await, "");
    driver.stop(cluster.name(), machine.name()).await.unwrap();
    let machine = ensure(driver, &with_mounts(cluster, &mounts)).await;
    assert_eq!(sh(&*machine, list).await, "/srv/one:\nfile");
    // That a folder has gone since troubles nobody; one that is wanted anew has to be there.
    drop(host);
    assert_eq!(driver.check(&with_mounts(cluster, &mounts)).await.unwrap(), []);
    let more = [mounts[0].clone(), "/none:/srv/two".to_owned()];
    let findings = driver.check(&with_mounts(cluster, &more)).await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
}

async fn missing(driver: &dyn Driver, cluster: &Cluster) {
    let cluster = with_mounts(cluster, &["/no/such/folder:/srv".to_owned(), "/none:/srv/two".to_owned()]);
    let findings = driver.check(&cluster).await.unwrap();
    let codes: Vec<_> = findings.iter().map(|refusal| refusal.finding.code).collect();
    assert_eq!(codes, ["HOST_NO_MOUNT", "HOST_NO_MOUNT"]);
    driver.ensure_network(&cluster).await.unwrap();
    let ensured = contract::ensure(driver, &cluster, &cluster.spec.primary().name).await;
    let Err(DriverError::Failed { what, code, .. }) = ensured else { panic!("it has a folder that is not") };
    assert_eq!(
        (what.as_str(), code.name),
        ("node te-contract cannot have /no/such/folder of the host", codes[0])
    );
    assert!(driver.find(cluster.name()).await.unwrap().is_empty());
}

async fn port(driver: &dyn Driver, cluster: &Cluster) {
    let mut cluster = cluster.clone();
    cluster.spec.nodes[0].ports = vec![format!("{PORT}:4000").parse().unwrap()];
    assert_eq!(driver.check(&cluster).await.unwrap(), []);
    let machine = ensure(driver, &cluster).await;
    let listening = machine.guest().run(Cmd::new(["nc", "-l", "-p", "4000", "-e", "echo", "hello"]));
    let (served, heard) = tokio::join!(listening, heard());
    served.unwrap();
    assert_eq!(heard, "hello\n");
    driver.stop(cluster.name(), machine.name()).await.unwrap();
    let refused = TcpStream::connect(PORT).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "nobody waits for a machine that is off");
    assert!(!driver.has_network(&cluster).await.unwrap(), "the port comes back with the machine");
}

/// What is said to who connects to the port, as soon as somebody listens there.
async fn heard() -> String {
    loop {
        let said = tokio::task::spawn_blocking(|| {
            let mut text = String::new();
            TcpStream::connect(PORT)?.read_to_string(&mut text)?;
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
