//! Reads the logs of a stopped node from its disk.

use std::io;
use std::path::Path;

use flotilla_core::LogFile;
use flotilla_linux::enter::Files;

use super::disk::Disk;

/// PID 1's own logs.
const SERVICES: &str = "/var/log/flotilla";
/// Those of containers, by pod and container.
const PODS: &str = "/var/log/pods";
const SYSTEM: &str = "kube-system_";

/// The last lines of each. Links that the node has made lead to its own files only.
pub(super) fn of(disk: &Disk, lines: usize) -> io::Result<Vec<LogFile>> {
    let files = match Files::below(&disk.folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut directories = vec![SERVICES.to_owned()];
    for pod in files.names(Path::new(PODS))?.iter().filter(|pod| pod.starts_with(SYSTEM)) {
        let pod = format!("{PODS}/{pod}");
        let containers = files.names(Path::new(&pod))?;
        directories.extend(containers.iter().map(|container| format!("{pod}/{container}")));
    }
    let mut logs = Vec::new();
    for directory in directories {
        let is_log = |name: &&String| Path::new(name).extension().is_some_and(|extension| extension == "log");
        for name in files.names(Path::new(&directory))?.iter().filter(is_log) {
            let path = format!("{directory}/{name}");
            // What is no file, or cannot be read, does not hide the others.
            if let Ok(Some(text)) = files.tail(Path::new(&path), lines) {
                logs.push(LogFile { path, text });
            }
        }
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_logs_are_found_and_links_do_not_lead_into_the_hosts_files() {
        let home = tempfile::tempdir().unwrap();
        let disk = Disk { folder: home.path().join("node") };
        assert_eq!(of(&disk, 2).unwrap(), []);
        for name in [
            "log/flotilla/kubelet.log",
            "log/flotilla/kubelet.log.1",
            "log/pods/kube-system_a_1/main/0.log",
            "log/pods/default_b_2/main/0.log",
        ] {
            let path = disk.var().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "a\nb\nc\n").unwrap();
        }
        fs::create_dir(home.path().join("secrets")).unwrap();
        fs::write(home.path().join("secrets/0.log"), "host").unwrap();
        symlink(home.path().join("secrets/0.log"), disk.var().join("log/flotilla/host.log")).unwrap();
        symlink(home.path().join("secrets"), disk.var().join("log/pods/kube-system_a_1/out")).unwrap();
        symlink("../../../..", disk.var().join("log/pods/kube-system_up")).unwrap();
        let found = of(&disk, 2).unwrap();
        let log = |path: &str| LogFile { path: path.to_owned(), text: "b\nc".to_owned() };
        assert_eq!(
            found,
            [log("/var/log/flotilla/kubelet.log"), log("/var/log/pods/kube-system_a_1/main/0.log")]
        );
    }
}
