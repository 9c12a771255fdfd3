//! Data of etcd on a node's disk, and what is no longer in use of it. That is kept under a number in the node that it was
//! in, and never overwritten: a user may need it. It goes with the node.

use std::path::Path;

use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Node, Power};

use super::{DATA, DATABASE};
use crate::disk;
use crate::phase::run;

/// Shell: the path of a copy that does not exist yet, in `$copy`.
pub(super) const NEXT: &str = "last=$(ls -d /var/lib/etcd.before-* 2>/dev/null | sed 's/.*-//' | grep '^[0-9][0-9]*$' | sort -n | tail -n 1)
copy=/var/lib/etcd.before-$((${last:-0} + 1))";

/// Whether the disk of a control plane, on or off, has a database of etcd. None if nobody can say: it is off, and its host
/// cannot reach its disk, or a directory of the host is mounted where the data is.
pub(super) async fn has_data(node: &Node, machine: &dyn Machine) -> Result<Option<bool>, BootstrapError> {
    match machine.state().power {
        Power::On => {
            let look = Cmd::sh(format!("[ ! -e {DATABASE} ] || echo data"));
            Ok(Some(!run(machine, "look for data of etcd", look).await?.text().is_empty()))
        }
        Power::Off if node.spec.mounts.iter().any(|mount| Path::new(DATABASE).starts_with(&mount.target)) => {
            Ok(None)
        }
        Power::Off => machine.is_on_disk(DATABASE).map_err(|source| BootstrapError::Api {
            action: format!("look for {DATABASE} of node {}", machine.name()),
            source: source.into(),
        }),
        Power::Unknown(why) => Err(disk::unknown(machine, why)),
    }
}

/// Sets the data of a node's etcd aside. A node that has none is a success.
pub(crate) async fn set_aside(machine: &dyn Machine) -> Result<(), BootstrapError> {
    run(machine, "move etcd's data aside", Cmd::sh(script())).await.map(drop)
}

fn script() -> String {
    format!("set -e\n[ -e {DATA}/member ] || exit 0\n{NEXT}\nmv {DATA}/member \"$copy\"")
}

/// The inode of the data directory: a recreated etcd has another one. Empty if there is none.
pub(super) async fn data_id(machine: &dyn Machine) -> Result<String, BootstrapError> {
    let stat = Cmd::new(["stat".to_owned(), "-c%i".to_owned(), format!("{DATA}/member")]);
    match run(machine, "look at etcd's data", stat).await {
        Ok(inode) => Ok(inode.text().trim().to_owned()),
        Err(BootstrapError::Node { source: GuestError::Failed { .. }, .. }) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// The copies in a node, the oldest first.
pub(super) async fn copies(machine: &dyn Machine) -> Result<Vec<String>, BootstrapError> {
    // Also what an older flotilla has left.
    let list = Cmd::sh("ls -d /var/lib/etcd.before* 2>/dev/null | sort -t - -k 2 -n; true");
    let listed = run(machine, "look for copies of etcd's data", list).await?;
    Ok(listed.text().lines().map(str::to_owned).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use flotilla_linux::host::Command;
    use flotilla_spec::HostMount;
    use flotilla_testkit::fake::{self, FakeMachine};

    use super::*;

    /// Runs a script by the shell itself, with the node's directories below `root`.
    pub(crate) fn sh(root: &Path, script: &str) -> String {
        let root = root.display();
        let script = script.replace("/var/", &format!("{root}/var/"));
        let script = script.replace("/etc/", &format!("{root}/etc/"));
        Command::new("sh").args(["-c", script.as_str()]).run().unwrap().text()
    }

    #[tokio::test]
    async fn of_a_machine_that_is_off_only_its_own_disk_says_that_there_is_no_data() {
        let mut node = fake::cluster("10.213.0.0/24").primary().unwrap();
        let (empty, full) = (FakeMachine::new(&[], &[]), FakeMachine::new(&[(DATABASE, b"db")], &[]));
        assert_eq!(has_data(&node, &empty.off()).await.unwrap(), Some(false));
        assert_eq!(has_data(&node, &full.off()).await.unwrap(), Some(true));
        let hidden = FakeMachine::new(&[], &[]).off();
        hidden.hide_disk();
        assert_eq!(has_data(&node, &hidden).await.unwrap(), None);
        full.break_file(DATABASE);
        assert!(has_data(&node, &full.off()).await.is_err());
        for (target, expected) in [("/var/lib/etcd", None), ("/var/lib", None), ("/var/lib/etc", Some(false))]
        {
            node.spec.mounts =
                vec![HostMount { source: "/srv".into(), target: target.into(), read_only: false }];
            assert_eq!(has_data(&node, &empty.off()).await.unwrap(), expected, "{target}");
        }
    }

    #[test]
    fn no_copy_is_ever_overwritten() {
        let root = tempfile::tempdir().unwrap();
        for number in 1..=11 {
            sh(root.path(), &format!("mkdir -p {DATA}/member; echo {number} > {DATA}/member/db"));
            sh(root.path(), &script());
            sh(root.path(), &script());
        }
        // One that a user has removed does not free its number.
        sh(root.path(), "rm -r /var/lib/etcd.before-5; mkdir /var/lib/etcd.before-mine");
        sh(root.path(), &format!("mkdir -p {DATA}/member; echo 12 > {DATA}/member/db"));
        sh(root.path(), &script());
        for number in [1, 2, 10, 11, 12] {
            let kept = sh(root.path(), &format!("cat /var/lib/etcd.before-{number}/db"));
            assert_eq!(kept.trim(), number.to_string());
        }
    }
}
