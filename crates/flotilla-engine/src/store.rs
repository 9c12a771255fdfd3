//! The clusters in the state directory: everything that cannot be observed.
//! `clusters/NAME/{state.json,state.json.bak,renewal.json,lock,nodes/}`.

mod locked;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flotilla_core::Cancel;
use flotilla_files::{FileLock, Holder, make_directory};
use flotilla_spec::{ClusterName, NodeName};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use flotilla_core::cluster::{Allocations, Cluster, IdRange};

use locked::Revision;
use record::Unreadable;

pub use locked::{Locked, Peeked};
pub use record::SCHEMA_VERSION;

const STATE: &str = "state.json";
/// The state before the last change, to restore if the other one is damaged.
const BACKUP: &str = "state.json.bak";
/// Version 1 stored the spec in a separate file.
const SPEC: &str = "cluster.yaml";
const NODES: &str = "nodes";
/// Its name is that of an older word for it.
const RECOVERY: &str = "renewal.json";
const LOCK: &str = "lock";

/// The stored clusters. Written atomically through a temporary file and a rename; reading never waits.
#[derive(Debug, Clone)]
pub struct ClusterStore {
    folder: PathBuf,
}

/// The last `recover` or snapshot restore. It is stored because it cannot be observed: a cluster with one member may
/// always have been that small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recovery {
    /// Where.
    pub node: NodeName,
    /// Identifies the old data: if it is still in place, the recovery has not started.
    pub data: String,
    /// False if the command was killed.
    pub finished: bool,
}

/// The address ranges of the clusters in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Each with its user.
    pub taken: Vec<(Ipv4Net, String)>,
    /// Clusters whose state is so damaged that their ranges are unknown.
    pub unknown: Vec<ClusterName>,
}

/// What to do while another command changes the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenBusy {
    Wait,
    Fail,
}

impl ClusterStore {
    /// The clusters of a state directory. Creates nothing until one is saved.
    pub fn new(home: &Path) -> Self {
        Self { folder: home.join("clusters") }
    }

    /// The directory that has a directory for each cluster.
    pub fn clusters(&self) -> &Path {
        &self.folder
    }

    /// The directory of a cluster.
    pub fn folder(&self, name: &ClusterName) -> PathBuf {
        self.folder.join(name.as_ref())
    }

    /// When a cluster was created; none if the file system does not record it.
    pub fn created(&self, name: &ClusterName) -> Option<SystemTime> {
        fs::metadata(self.folder(name)).and_then(|folder| folder.created()).ok()
    }

    /// The names of all clusters, intact or damaged.
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

    /// Reads a cluster; none if it was never saved. The state of a newer flotilla is [`EngineError::Newer`]; invalid
    /// state, or missing state of nodes with data, is [`EngineError::Damaged`].
    pub fn load(&self, name: &ClusterName) -> Result<Option<Cluster>, EngineError> {
        self.parse(name, &self.revision(name)?)
    }

    /// Like [`ClusterStore::load`], for a command that locks the cluster later: [`Locked::refresh`] says whether another
    /// one has changed it meanwhile.
    pub fn peek(&self, name: &ClusterName) -> Result<Option<Peeked>, EngineError> {
        let revision = self.revision(name)?;
        Ok(self.parse(name, &revision)?.map(|cluster| Peeked { cluster, revision }))
    }

    /// Like [`ClusterStore::peek`], of a cluster that must exist.
    pub fn peek_existing(&self, name: &ClusterName) -> Result<Peeked, EngineError> {
        self.peek(name)?.ok_or_else(|| self.no_cluster(name))
    }

    fn revision(&self, name: &ClusterName) -> Result<Revision, EngineError> {
        Ok(Revision { state: self.read(name, STATE)?, spec: self.read(name, SPEC)? })
    }

    fn parse(&self, name: &ClusterName, revision: &Revision) -> Result<Option<Cluster>, EngineError> {
        let Some(state) = &revision.state else {
            return self.missing(name, STATE);
        };
        let read = record::read(state, revision.spec.as_deref());
        let Some(mut cluster) = read.map_err(|unreadable| self.unreadable(name, STATE, unreadable))? else {
            return self.missing(name, SPEC);
        };
        let damage = if cluster.spec.name != *name {
            Some(format!("it is the state of cluster {}", cluster.spec.name))
        } else if cluster.spec.control_planes().next().is_none() {
            Some("it has no control plane".to_owned())
        } else {
            None
        };
        if let Some(why) = damage {
            return Err(self.unreadable(name, STATE, Unreadable::Damaged(why.into())));
        }
        // Version 1 wrote two files: if it was killed between them, a node may have no allocation. If none is free,
        // it stays so.
        let _ = cluster.allocate();
        Ok(Some(cluster))
    }

    /// A missing file means that the cluster was never saved, unless it has nodes.
    fn missing(&self, name: &ClusterName, file: &str) -> Result<Option<Cluster>, EngineError> {
        let nodes = self.folder(name).join(NODES);
        match fs::read_dir(nodes).ok().and_then(|mut nodes| nodes.next()) {
            None => Ok(None),
            Some(_) => Err(self.unreadable(name, file, Unreadable::Damaged("the file is missing".into()))),
        }
    }

    fn unreadable(&self, name: &ClusterName, file: &str, why: Unreadable) -> EngineError {
        let (cluster, folder) = (name.clone(), self.folder(name));
        let path = folder.join(file);
        match why {
            Unreadable::Newer(version) => {
                EngineError::Newer { cluster, path, version, newest: SCHEMA_VERSION }
            }
            Unreadable::Damaged(source) => {
                let backup = Some(folder.join(BACKUP)).filter(|backup| file == STATE && backup.exists());
                EngineError::Damaged { cluster, path, backup, source }
            }
        }
    }

    /// The last recovery of a cluster's etcd; none if there was none.
    pub fn recovery(&self, name: &ClusterName) -> Result<Option<Recovery>, EngineError> {
        let text = self.read(name, RECOVERY)?;
        let read = text.map(|text| record::parse(&text)).transpose();
        read.map_err(|unreadable| self.unreadable(name, RECOVERY, unreadable))
    }

    /// The other clusters, without those that cannot be read.
    pub fn others(&self, except: &ClusterName) -> Result<Vec<Cluster>, EngineError> {
        let others = self.names()?.into_iter().filter(|name| name != except);
        Ok(others.filter_map(|name| self.load(&name).ok().flatten()).collect())
    }

    /// The ranges of all clusters. If a state cannot be read, the ranges are extracted from its damaged text.
    pub fn ranges(&self, except: &ClusterName) -> Result<Ranges, EngineError> {
        let mut ranges = Ranges::default();
        for name in self.names()?.into_iter().filter(|name| name != except) {
            let found = match self.load(&name) {
                Ok(None) => continue,
                Ok(Some(Cluster { allocations: Allocations { subnet, pod_subnet, .. }, .. })) => {
                    vec![subnet, pod_subnet]
                }
                Err(_) => self.salvage(&name),
            };
            let whose = format!("the cluster {name}");
            ranges.taken.extend(found.iter().map(|range| (*range, whose.clone())));
            if found.is_empty() {
                ranges.unknown.push(name);
            }
        }
        Ok(ranges)
    }

    fn salvage(&self, name: &ClusterName) -> Vec<Ipv4Net> {
        record::salvage(&self.damaged_text(name))
    }

    fn damaged_text(&self, name: &ClusterName) -> String {
        let folder = self.folder(name);
        let texts = [STATE, BACKUP, SPEC].map(|file| fs::read(folder.join(file)).unwrap_or_default());
        String::from_utf8_lossy(&texts.join(&b'\n')).into_owned()
    }

    /// The ids of user namespaces that nodes of other clusters have. If a state cannot be read, they are extracted from its
    /// damaged text.
    pub fn taken_ids(&self, except: &ClusterName) -> Result<Vec<IdRange>, EngineError> {
        let mut taken = Vec::new();
        for name in self.names()?.into_iter().filter(|name| name != except) {
            match self.load(&name) {
                Ok(cluster) => {
                    taken.extend(cluster.into_iter().flat_map(|it| it.allocations.ids.into_values()));
                }
                Err(_) => taken.extend(record::salvage_ids(&self.damaged_text(&name))),
            }
        }
        Ok(taken)
    }

    /// Prevents other commands from allocating ranges while the returned lock is held.
    pub fn allocation_lock(&self) -> Result<fs::File, EngineError> {
        let opened = make_directory(&self.folder);
        // Locks the directory itself: a lock file would be left behind.
        let locked = opened.and_then(|()| fs::File::open(&self.folder)).and_then(|folder| {
            folder.lock()?;
            Ok(folder)
        });
        locked.map_err(|source| self.io("lock", &self.folder, source))
    }

    /// A cluster that must be there.
    pub fn get(&self, name: &ClusterName) -> Result<Cluster, EngineError> {
        self.load(name)?.ok_or_else(|| self.no_cluster(name))
    }

    /// The error about a cluster that does not exist, with the names of those that do.
    pub fn no_cluster(&self, name: &ClusterName) -> EngineError {
        let others = self.names().unwrap_or_default().into_iter().filter(|other| other != name).collect();
        EngineError::NoCluster { name: name.clone(), others }
    }

    /// Locks the cluster for changes, after the current holder has released it.
    pub fn lock(
        &self,
        name: &ClusterName,
        what: &str,
        busy: WhenBusy,
        cancel: &Cancel,
        on_wait: impl FnOnce(Option<Holder>),
    ) -> Result<Locked, EngineError> {
        let since = jiff::Timestamp::now().strftime("%H:%M:%S UTC").to_string();
        let holder = Holder { pid: std::process::id(), what: what.to_owned(), since };
        let path = || Ok::<_, EngineError>(self.make_folder(name)?.join(LOCK));
        let lock = match busy {
            WhenBusy::Wait => FileLock::acquire_unless(&path()?, &holder, || cancel.is_cancelled(), on_wait)?,
            WhenBusy::Fail => FileLock::try_acquire(&path()?, &holder)?
                .map_err(|holder| EngineError::Busy { cluster: name.clone(), holder })?,
        };
        // The last holder may have deleted the cluster with its directory.
        self.make_folder(name)?;
        Ok(Locked::new(self, name, lock))
    }

    fn make_folder(&self, name: &ClusterName) -> Result<PathBuf, EngineError> {
        let folder = self.folder(name);
        make_directory(&folder).map_err(|source| self.io("make", &folder, source))?;
        Ok(folder)
    }

    fn read(&self, name: &ClusterName, file: &str) -> Result<Option<String>, EngineError> {
        let path = self.folder(name).join(file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // It is not text.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(self.unreadable(name, file, Unreadable::Damaged(Box::new(error))))
            }
            Err(source) => Err(self.io("read", &path, source)),
        }
    }

    #[expect(clippy::unused_self, reason = "reads better where it is used")]
    fn io(&self, action: &'static str, path: &Path, source: io::Error) -> EngineError {
        EngineError::Io { action, path: path.to_owned(), source }
    }
}
