//! Directories of the host that are mounted where kubeadm and we remove files. Such mounts are refused, but a node that an
//! earlier release booted may have one: it is detached before anything is removed, so that the user's files stay. Likewise a
//! link in the place of a directory that is emptied: somebody in the node may have led it to a directory of the host.

/// Shell: detaches and unlinks them. Fails if one stays.
pub(crate) const DETACH: &str = "set -o pipefail; awk '$5 ~ \"^/(etc/kubernetes|var/lib/etcd)(/|$)\" || $5 == \"/var/lib/kubelet\" || $5 == \"/var/lib\" {print $5}' /proc/self/mountinfo \
     | sort -r | xargs -r umount -l || exit; \
     for path in /etc/kubernetes /etc/kubernetes/pki /etc/kubernetes/pki/etcd /etc/kubernetes/manifests /var/lib/etcd /var/lib/kubelet; \
     do [ ! -L $path ] || rm $path || exit; done";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use flotilla_linux::host::Command;

    use super::*;

    #[test]
    fn what_is_mounted_over_directories_that_are_emptied_is_detached_innermost_first() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("mountinfo");
        let targets = [
            "/",
            "/etc/kubernetes-mine",
            "/etc/kubernetes/pki",
            "/etc/kubernetes/pki/etcd",
            "/var/lib/etcd",
            "/var/lib/kubelet",
            "/var/lib/kubelet/pods/a/volumes/b",
            "/var/lib",
        ];
        let lines = targets.map(|at| format!("30 1 0:1 / {at} rw shared:1 - ext4 /dev/vda rw\n"));
        fs::write(&list, lines.concat()).unwrap();
        let script = DETACH.replace("/proc/self/mountinfo", list.to_str().unwrap());
        let script = script.replace("umount", "echo");
        let detached = Command::new("bash").args(["-c", script.as_str()]).run().unwrap().text();
        assert_eq!(
            detached.trim(),
            "-l /var/lib/kubelet /var/lib/etcd /var/lib /etc/kubernetes/pki/etcd /etc/kubernetes/pki"
        );
    }

    #[test]
    fn links_in_the_place_of_directories_that_are_emptied_are_removed_and_not_what_they_lead_to() {
        let (root, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(host.path().join("ca.key"), "the user's").unwrap();
        fs::create_dir_all(root.path().join("etc/kubernetes/manifests")).unwrap();
        let pki = root.path().join("etc/kubernetes/pki");
        std::os::unix::fs::symlink(host.path(), &pki).unwrap();
        let below = root.path().to_str().unwrap();
        let script = DETACH.replace("/proc/self/mountinfo", "/dev/null");
        let script =
            script.replace(" /etc/", &format!(" {below}/etc/")).replace(" /var/", &format!(" {below}/var/"));
        Command::new("bash").args(["-c", script.as_str()]).run().unwrap();
        assert!(!pki.is_symlink() && root.path().join("etc/kubernetes/manifests").is_dir());
        assert!(host.path().join("ca.key").exists());
    }

    /// All paths of a node's own directories that are in our sources, tests aside.
    fn named_in(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                named_in(&path, found);
                continue;
            }
            // Flannel's manifest names paths of its pods, and kubeconfigs are on the host.
            let others = ["tests.rs", "fake_api.rs", "flannel.rs"].iter().any(|name| path.ends_with(name))
                || path.iter().any(|part| part == "kubeconfig");
            if others || path.extension().is_none_or(|kind| kind != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("mod tests {").next().unwrap();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for (at, _) in line.match_indices('/') {
                    let is_path = |char: char| char.is_ascii_alphanumeric() || "/._-".contains(char);
                    let word: String = line[at..].chars().take_while(|char| is_path(*char)).collect();
                    let begins = !line[..at].ends_with(is_path);
                    if begins && ["/etc/", "/var/", "/opt/"].iter().any(|top| word.starts_with(top)) {
                        found.push((path.clone(), word));
                    }
                }
            }
        }
    }

    /// Whatever is removed or written in a node has its path in the sources.
    #[test]
    fn no_directory_of_the_host_can_be_mounted_over_what_is_written_or_removed_in_nodes() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut found = Vec::new();
        for own in ["flotilla-kubeadm/src", "flotilla-node/src"] {
            named_in(&crates.join(own), &mut found);
        }
        assert!(found.len() > 20, "{found:?}");
        for (file, path) in found {
            assert!(
                flotilla_spec::owned_by_node(Path::new(&path)).is_some(),
                "{path} of {} is missing in flotilla-spec's list of what a node owns",
                file.display()
            );
        }
    }
}
