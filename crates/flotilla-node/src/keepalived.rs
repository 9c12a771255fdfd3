//! Starts keepalived, which holds the virtual IP while this node owns it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flotilla_node_api::Unit;

use crate::root::Root;
use crate::service::Launch;

/// Its file in a node. It is started as soon as that exists.
pub(crate) const CONFIGURATION: &str = "/etc/flotilla/keepalived.conf";

/// Whether keepalived has a configuration. Only control planes of several have one.
pub(crate) fn has_its_file(root: &Root) -> bool {
    configuration(root).exists()
}

/// Keepalived as our child, talking to its log.
pub(crate) fn launch(root: &Root, program: &Path) -> io::Result<Launch> {
    let (pid, vrrp_pid) = (root.run().join("keepalived.pid"), root.run().join("vrrp.pid"));
    for stale in [&pid, &vrrp_pid] {
        // It would take one that was killed for alive if its number is in use again.
        match fs::remove_file(stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let flags = ["--dont-fork", "--log-console", "--log-detail", "--vrrp"].map(Into::into);
    let files = [("--use-file", configuration(root)), ("--pid", pid), ("--vrrp_pid", vrrp_pid)];
    let files = files.into_iter().flat_map(|(flag, file)| [flag.into(), file.into()]);
    Ok(Launch {
        program: program.to_owned(),
        args: flags.into_iter().chain(files).collect(),
        env: Vec::new(),
    })
}

/// Where its output goes.
pub(crate) fn log(root: &Root) -> PathBuf {
    root.logs().join(format!("{}.log", Unit::Keepalived))
}

fn configuration(root: &Root) -> PathBuf {
    root.at(CONFIGURATION.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_needs_its_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert!(!has_its_file(&root));
        fs::create_dir_all(root.flotilla()).unwrap();
        fs::write(configuration(&root), "").unwrap();
        assert!(has_its_file(&root));
    }

    #[test]
    fn the_files_of_one_that_was_killed_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        fs::create_dir_all(root.run()).unwrap();
        for stale in ["keepalived.pid", "vrrp.pid"] {
            fs::write(root.run().join(stale), "1\n").unwrap();
        }
        launch(&root, Path::new("keepalived")).unwrap();
        assert_eq!(fs::read_dir(root.run()).unwrap().count(), 0);
        launch(&root, Path::new("keepalived")).unwrap();
    }
}
