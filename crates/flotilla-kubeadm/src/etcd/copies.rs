//! Data of etcd on a node's disk, and what is no longer in use of it. That is kept under a number in the node that it was
//! in, and never overwritten: a user may need it. It goes with the node.

use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Power};

use super::{DATA, DATABASE};
use crate::marks;
use crate::phase::run;

/// Shell: the path of a copy that does not exist yet, in `$copy`.
pub(super) const NEXT: &str = "last=$(ls -d /var/lib/etcd.before-* 2>/dev/null | sed 's/.*-//' | grep '^[0-9][0-9]*$' | sort -n | tail -n 1)
copy=/var/lib/etcd.before-$((${last:-0} + 1))";

/// Whether the disk of a control plane, on or off, has a database of etcd. Of one that is off this is known where its disk
/// can be reached.
pub(super) async fn has_data(machine: &dyn Machine) -> Result<bool, BootstrapError> {
    match machine.state().power {
        Power::On => {
            let look = Cmd::sh(format!("[ ! -e {DATABASE} ] || echo data"));
            Ok(!run(machine, "look for data of etcd", look).await?.text().is_empty())
        }
        Power::Off => machine.is_on_disk(DATABASE).map_err(|source| BootstrapError::Api {
            action: format!("look for {DATABASE} of node {}", machine.name()),
            source: source.into(),
        }),
        Power::Unknown(why) => Err(marks::unknown(machine, why)),
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
    let stat = Cmd::new(["stat".to_owned(), "--format=%i".to_owned(), format!("{DATA}/member")]);
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
    use std::path::Path;

    use flotilla_linux::host::Command;

    use super::*;

    /// Runs a script by the shell itself, with the node's directories below `root`.
    pub(crate) fn sh(root: &Path, script: &str) -> String {
        let root = root.display();
        let script = script.replace("/var/", &format!("{root}/var/"));
        let script = script.replace("/etc/", &format!("{root}/etc/"));
        Command::new("sh").args(["-c", script.as_str()]).run().unwrap().text()
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
