//! The state folder's clusters: what cannot be observed.
//! `clusters/NAME/{cluster.yaml,state.json,renewal.json,lock,nodes/}`.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use flotilla_linux::filelock::{FileLock, Holder};
use flotilla_linux::host::Cancel;
use flotilla_spec::{ClusterName, ClusterSpec, NodeName};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, HandedOut};
use crate::error::EngineError;
use crate::port::Changed;

const SPEC: &str = "cluster.yaml";
const STATE: &str = "state.json";
const RENEWAL: &str = "renewal.json";
const LOCK: &str = "lock";

/// Where clusters are kept. Written through a temporary file and a rename; reading never waits.
#[derive(Debug, Clone)]
pub struct ClusterStore {
    folder: PathBuf,
}

/// The last time that etcd began anew with one member. What is seen of it later could be a cluster that was always so
/// small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Renewal {
    /// Where.
    pub node: NodeName,
    /// What its data was known by before: if it still is, nothing has begun.
    pub data: String,
    /// Else the command was killed.
    pub finished: bool,
}

/// What to do while another command changes the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    Wait,
    Fail,
}

/// The right to change a cluster.
#[derive(Debug)]
#[expect(dead_code, reason = "held for what its end does")]
pub struct ClusterLock(FileLock);

impl ClusterStore {
    /// The clusters of a state folder. Nothing is made until one is saved.
    pub fn new(home: &Path) -> Self {
        Self { folder: home.join("clusters") }
    }

    /// A cluster's own folder.
    pub fn folder(&self, name: &ClusterName) -> PathBuf {
        self.folder.join(name.as_ref())
    }

    /// The names that have a folder, whole or damaged.
    pub fn names(&self) -> Result<Vec<ClusterName>, EngineError> {
        let items = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            items => items.map_err(|source| self.io("read", &self.folder, source))?,
        };
        let mut names: Vec<ClusterName> =
            items.filter_map(|item| item.ok()?.file_name().into_string().ok()?.parse().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// A cluster as it was saved; none if it never was.
    pub fn load(&self, name: &ClusterName) -> Result<Option<Cluster>, EngineError> {
        let (Some(spec), Some(state)) = (self.read(name, SPEC)?, self.read(name, STATE)?) else {
            return Ok(None);
        };
        let damaged = |source: Box<dyn std::error::Error + Send + Sync>| EngineError::Damaged {
            cluster: name.clone(),
            source,
        };
        let spec = ClusterSpec::from_yaml(&spec).map_err(|error| damaged(Box::new(error)))?;
        let handed_out: HandedOut = serde_json::from_str(&state).map_err(|error| damaged(Box::new(error)))?;
        if spec.name != *name {
            return Err(damaged(format!("{SPEC} is that of cluster {}", spec.name).into()));
        }
        Ok(Some(Cluster { spec, handed_out }))
    }

    /// The last renewal of a cluster's etcd; none if there never was one.
    pub fn renewal(&self, name: &ClusterName) -> Result<Option<Renewal>, EngineError> {
        let damaged = |source| EngineError::Damaged { cluster: name.clone(), source: Box::new(source) };
        let text = self.read(name, RENEWAL)?;
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(damaged)
    }

    pub fn save_renewal(&self, name: &ClusterName, renewal: &Renewal) -> Result<(), EngineError> {
        let path = self.make_folder(name)?.join(RENEWAL);
        let text = serde_json::to_string_pretty(renewal).expect("it is plain data") + "\n";
        write_whole(&path, text.as_bytes()).map_err(|source| self.io("write", &path, source))
    }

    /// The other clusters here. One that cannot be read is left out.
    pub fn others(&self, except: &ClusterName) -> Result<Vec<Cluster>, EngineError> {
        let others = self.names()?.into_iter().filter(|name| name != except);
        Ok(others.filter_map(|name| self.load(&name).ok().flatten()).collect())
    }

    /// The ranges that were handed out to the clusters here, and to which.
    pub fn ranges(&self, except: &ClusterName) -> Result<Vec<(Ipv4Net, String)>, EngineError> {
        let others = self.others(except)?.into_iter();
        Ok(others
            .flat_map(|cluster| {
                let whose = format!("the cluster {}", cluster.name());
                let HandedOut { subnet, pod_subnet, .. } = cluster.handed_out;
                [(subnet, whose.clone()), (pod_subnet, whose)]
            })
            .collect())
    }

    /// Keeps other commands from handing out ranges, for as long as what it gives is held.
    pub fn hand_out_alone(&self) -> Result<fs::File, EngineError> {
        let opened = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        // The folder itself is what is locked: a file for that would be left behind.
        let locked = opened.and_then(|()| fs::File::open(&self.folder)).and_then(|folder| {
            folder.lock()?;
            Ok(folder)
        });
        locked.map_err(|source| self.io("lock", &self.folder, source))
    }

    /// A cluster that must be there.
    pub fn get(&self, name: &ClusterName) -> Result<Cluster, EngineError> {
        self.load(name)?.ok_or_else(|| EngineError::NoCluster(name.clone()))
    }

    pub fn save(&self, cluster: &Cluster) -> Result<(), EngineError> {
        let folder = self.make_folder(cluster.name())?;
        let state = serde_json::to_string_pretty(&cluster.handed_out).expect("it is plain data");
        // The state first: a spec without one is no cluster yet.
        for (name, text) in [(STATE, state + "\n"), (SPEC, cluster.spec.to_yaml())] {
            let path = folder.join(name);
            write_whole(&path, text.as_bytes()).map_err(|source| self.io("write", &path, source))?;
        }
        Ok(())
    }

    /// Removes the cluster's folder, its lock last: as long as that is there, nobody else comes in, and who waits for
    /// it finds that it is gone. Says whether anything but the lock was there.
    pub fn remove(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        let folder = self.folder(name);
        let mut was_there = false;
        for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if item.file_name() != LOCK {
                was_there = true;
                let path = item.path();
                let is_folder = item.file_type().is_ok_and(|kind| kind.is_dir());
                let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|source| self.io("remove", &path, source))?;
            }
        }
        let lock = folder.join(LOCK);
        match fs::remove_file(&lock).and_then(|()| fs::remove_dir(&folder)) {
            // The next one was quick: by now it has a lock there, and the folder is its own.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_dir(&folder)),
            removed => removed.map_err(|source| self.io("remove", &lock, source))?,
        }
        // Only if it was the last one, and nothing else was ever kept here.
        for folder in self.folder.ancestors().take(2) {
            let _ = fs::remove_dir(folder);
        }
        Ok(if was_there { Changed::Yes } else { Changed::No })
    }

    /// Takes the right to change the cluster, from whoever has it when they give it back.
    pub fn lock(
        &self,
        name: &ClusterName,
        what: &str,
        busy: WhenBusy,
        cancel: &Cancel,
        on_wait: impl FnOnce(Option<Holder>),
    ) -> Result<ClusterLock, EngineError> {
        let since = jiff::Timestamp::now().strftime("%H:%M:%S UTC").to_string();
        let holder = Holder { pid: std::process::id(), what: what.to_owned(), since };
        let path = || Ok::<_, EngineError>(self.make_folder(name)?.join(LOCK));
        let lock = match busy {
            WhenBusy::Wait => FileLock::acquire_unless(&path()?, &holder, cancel, on_wait)?,
            WhenBusy::Fail => FileLock::try_acquire(&path()?, &holder)?
                .map_err(|holder| EngineError::Busy { cluster: name.clone(), holder })?,
        };
        // Its last holder may have deleted the cluster, folder and all.
        self.make_folder(name)?;
        Ok(ClusterLock(lock))
    }

    fn make_folder(&self, name: &ClusterName) -> Result<PathBuf, EngineError> {
        let folder = self.folder(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|source| self.io("make", &folder, source))?;
        Ok(folder)
    }

    fn read(&self, name: &ClusterName, file: &str) -> Result<Option<String>, EngineError> {
        let path = self.folder(name).join(file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.io("read", &path, source)),
        }
    }

    #[expect(clippy::unused_self, reason = "reads better where it is used")]
    fn io(&self, action: &'static str, path: &Path, source: io::Error) -> EngineError {
        EngineError::Io { action, path: path.to_owned(), source }
    }
}

/// Writes a file that is either the old or the new one, also through a power cut.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("it is in a folder");
    let mut file = tempfile::Builder::new().prefix(".unfinished-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(folder)?.sync_all()
}
