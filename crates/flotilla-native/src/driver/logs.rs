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

/// How much of them is read together: a node may have as many as it likes.
const MOST: usize = 64 << 20;
/// How many directories are looked into, and how many files are read: by links a few of them become very many.
const MOST_FILES: usize = 1 << 12;

/// The last lines of each, as long as there is room. Links that the node has made lead to its own files only.
pub(super) fn of(disk: &Disk, lines: usize) -> io::Result<Vec<LogFile>> {
    let files = match Files::below(&disk.folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut directories = vec![SERVICES.to_owned()];
    for pod in files.names(Path::new(PODS))?.iter().filter(|pod| pod.starts_with(SYSTEM)) {
        let pod = format!("{PODS}/{pod}");
        let room = MOST_FILES.saturating_sub(directories.len());
        let containers = files.names(Path::new(&pod))?;
        directories.extend(containers.iter().take(room).map(|container| format!("{pod}/{container}")));
        if directories.len() >= MOST_FILES {
            break;
        }
    }
    let mut logs = Vec::new();
    let mut read = 0;
    for directory in directories {
        let is_log = |name: &&String| Path::new(name).extension().is_some_and(|extension| extension == "log");
        for name in files.names(Path::new(&directory))?.iter().filter(is_log) {
            let path = format!("{directory}/{name}");
            // What is no file, or cannot be read, does not hide the others.
            if let Ok(Some(text)) = files.tail(Path::new(&path), lines) {
                read += text.len();
                logs.push(LogFile { path, text });
            }
            if read > MOST || logs.len() >= MOST_FILES {
                return Ok(logs);
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

    #[test]
    fn links_make_no_more_of_the_logs_than_is_read() {
        let home = tempfile::tempdir().unwrap();
        let disk = Disk { folder: home.path().join("node") };
        let pods = disk.var().join("log/pods");
        fs::create_dir_all(pods.join("kube-system_a/main")).unwrap();
        for number in 0..80 {
            fs::write(pods.join(format!("kube-system_a/main/{number}.log")), "").unwrap();
            symlink("main", pods.join(format!("kube-system_a/{number}"))).unwrap();
            symlink("kube-system_a", pods.join(format!("kube-system_{number}"))).unwrap();
        }
        assert_eq!(of(&disk, 2).unwrap().len(), MOST_FILES);
    }
}
