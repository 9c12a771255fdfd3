//! Everything on the host that a cluster could leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flotilla_linux::net::Net;

use crate::lab::{self, Cluster};

/// What exists on the host, a line for each thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostState {
    lines: BTreeSet<String>,
    /// Numbers and names of links by which the things of other clusters are known. They come and go while we look.
    others: BTreeSet<String>,
}

impl HostState {
    /// Looks at everything but what belongs to other clusters.
    ///
    /// Not at the settings that stay raised, which is documented: `ip_forward` and inotify's limits. Those of a link
    /// go with it.
    pub(crate) fn take(cluster: &Cluster) -> Self {
        let mut last = Self::look(cluster);
        // A cluster of another test is half there for moments: what is seen twice stays.
        let settled = || {
            let next = Self::look(cluster);
            let differs = !last.difference(&next).is_empty();
            last = next.clone();
            if differs { Err(next) } else { Ok(next) }
        };
        let limit = std::time::Duration::from_secs(5);
        flotilla_linux::poll::until(limit, settled, |_| false).unwrap_or_else(|last| last)
    }

    fn look(cluster: &Cluster) -> Self {
        let mut state = Self { lines: BTreeSet::new(), others: others(&cluster.name) };
        state.mounts();
        state.loop_devices();
        state.processes();
        state.network();
        state.groups();
        state.files(cluster);
        for line in fs::read_to_string(cluster.kubeconfig()).unwrap_or_default().lines() {
            state.add("kubeconfig", line);
        }
        // Those that came meanwhile, too.
        state.others.extend(others(&cluster.name));
        state
    }

    /// Fails with the difference, if there is one that stays.
    ///
    /// The kernel takes namespaces apart in its own time, and other clusters are half there for moments.
    #[track_caller]
    pub(crate) fn assert_unchanged(&self, cluster: &Cluster, after: &str) {
        let compare = || match self.difference(&Self::take(cluster)) {
            difference if difference.is_empty() => Ok(()),
            difference => Err(difference[..difference.len().min(50)].join("\n")),
        };
        let limit = std::time::Duration::from_secs(5);
        if let Err(difference) = flotilla_linux::poll::until(limit, compare, |_| false) {
            panic!("the host is not as it was before, after {after}:\n{difference}");
        }
    }

    fn difference(&self, now: &Self) -> Vec<String> {
        let others: BTreeSet<_> = self.others.union(&now.others).collect();
        let is_ours = |line: &&String| !others.iter().any(|other| line.contains(other.as_str()));
        let missing = self.lines.difference(&now.lines).filter(is_ours).map(|line| format!("- {line}"));
        let added = now.lines.difference(&self.lines).filter(is_ours).map(|line| format!("+ {line}"));
        missing.chain(added).collect()
    }

    fn add(&mut self, kind: &str, what: impl std::fmt::Display) {
        self.lines.insert(format!("{kind} {what}"));
    }

    fn mounts(&mut self) {
        for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
            // Without the numbers of the mount and its parent.
            self.add("mount", line.splitn(3, ' ').last().unwrap());
        }
    }

    /// Of files of ours. Clusters with the same bundle have one in common.
    fn loop_devices(&mut self) {
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if Path::new(&file).starts_with(lab::real_home()) && self.others.is_empty() {
                self.add("loop device", file);
            }
        }
    }

    /// Those in a control group of ours, and PID 1s wherever they are.
    fn processes(&mut self) {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            let (groups, command) = (read("cgroup"), read("cmdline").replace('\0', " "));
            let group = groups.lines().find_map(|line| Some(line.split_once("/flotilla/")?.1));
            // One that ends, or has ended and waits for whoever started it, may be in a group of v2 that is gone: a test beside this
            // one may have left it.
            let has_ended = read("status").lines().any(|line| line.starts_with("State:\tZ"))
                || group.is_some_and(|group| group.ends_with("(deleted)"));
            if !has_ended && (group.is_some() || command.starts_with("flotilla-init")) {
                self.add("process", format!("{command}({}) in {group:?}", read("comm").trim()));
            }
        }
    }

    fn network(&mut self) {
        let net = Net::here().unwrap();
        let is_of_test = |link: &str| link.starts_with(lab::LAN);
        for link in net.links().unwrap().into_iter().filter(|link| !is_of_test(&link.name)) {
            self.add("link", format!("{} {:?} up: {}", link.name, link.alias, link.up));
        }
        for address in net.addresses().unwrap().into_iter().filter(|address| !is_of_test(&address.link)) {
            self.add("address", format!("{} {}", address.link, address.address));
        }
        let leads_to_test = |link: &Option<String>| link.as_deref().is_some_and(is_of_test);
        for route in net.routes().unwrap().into_iter().filter(|route| !leads_to_test(&route.link)) {
            self.add("route", format!("{} {:?} {:?}", route.dst, route.via, route.link));
        }
        for table in rules().split("\ntable ") {
            let name = table.lines().next().unwrap_or_default().to_owned();
            for line in table.lines() {
                self.add("rule", format!("{name} {}", line.trim()));
            }
        }
    }

    fn groups(&mut self) {
        for group in groups() {
            self.add("group", group.display());
        }
    }

    fn files(&mut self, cluster: &Cluster) {
        if cluster.state().exists() {
            self.add("state", cluster.state().display());
        }
        // The directory of all clusters is removed with the last one, of any test; other tests have homes in it. The log of
        // commands stays, which is documented.
        // A command of another test may try at this moment whether the directory will do.
        let is_trial = |name: &str| {
            let process = name.strip_prefix(".flotilla-try-");
            process.is_some_and(|process| Path::new("/proc").join(process).exists())
        };
        let is_shared = |name: &str| ["clusters", "logs"].contains(&name) || name.starts_with("test-");
        let is_ours = |name: &String| !is_shared(name) && !is_trial(name);
        for name in names_in(&lab::real_home()).into_iter().filter(is_ours) {
            self.add("state", name);
        }
        for directory in ["/run", "/tmp", "/dev/shm", "/var/lib", "/etc"] {
            let ours = |name: &String| {
                name.contains(&cluster.name) || name.starts_with("flotilla") && !lab::is_of_tests(name)
            };
            for name in names_in(Path::new(directory)).into_iter().filter(ours) {
                self.add("file", format!("{directory}/{name}"));
            }
        }
    }
}

/// The host's packet rules, without counters.
#[expect(clippy::disallowed_methods, reason = "the text as nft gives it, whatever its exit status")]
pub(crate) fn rules() -> String {
    let nft = ["/usr/sbin/nft", "-s", "list", "ruleset"];
    let output = Command::new("chroot").arg(lab::bundle().join("rootfs")).args(nft).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// All control groups of clusters, in every hierarchy.
pub(crate) fn groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut roots: Vec<PathBuf> = directories_in(Path::new("/sys/fs/cgroup"));
    roots.push("/sys/fs/cgroup".into());
    let mut todo: Vec<PathBuf> = roots.iter().map(|root| root.join("flotilla")).collect();
    while let Some(directory) = todo.pop() {
        let below = directories_in(&directory);
        found.extend(below.iter().cloned());
        todo.extend(below);
    }
    found
}

/// The words by which the things of all clusters but this one are known.
fn others(ours: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for group in groups() {
        // `/sys/fs/cgroup/cpu/flotilla/NAME-ID` and what is below.
        let Some(group) = group.iter().skip_while(|part| *part != "flotilla").nth(1) else { continue };
        let group = group.to_string_lossy();
        words.extend(
            group.rsplit_once('-').filter(|(cluster, _)| *cluster != ours).map(|(_, id)| id.to_owned()),
        );
    }
    for link in Net::here().unwrap().links().unwrap() {
        let mut parts = link.alias.split('/');
        if parts.next() != Some("flotilla") {
            continue;
        }
        let (Some(id), Some(cluster)) = (parts.next(), parts.next()) else { continue };
        if cluster != ours {
            words.extend([id.to_owned(), link.name]);
        }
    }
    words
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn directories_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}
