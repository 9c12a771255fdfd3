//! A kubeconfig that is a map.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flotilla_core::KubeconfigError;
use flotilla_core::{ApiAccess, Changed, Kubeconfig, KubeconfigRefusal, KubeconfigRemoval, NameTaken};
use flotilla_spec::ClusterName;

use super::Calls;

/// Where it says that it is.
const PATH: &str = "/home/.kube/config";

#[derive(Debug, Default)]
pub struct FakeKubeconfig {
    calls: Calls,
    file: Mutex<File>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct File {
    known: BTreeMap<ClusterName, ApiAccess>,
    current: Option<ClusterName>,
    /// Names that somebody else has.
    taken: BTreeSet<ClusterName>,
    broken: bool,
}

impl FakeKubeconfig {
    pub fn new(calls: &Calls) -> Self {
        Self { calls: calls.clone(), ..Self::default() }
    }

    /// The clusters it knows.
    pub fn known(&self) -> Vec<ClusterName> {
        self.file().known.keys().cloned().collect()
    }

    pub fn current(&self) -> Option<ClusterName> {
        self.file().current.clone()
    }

    /// Where it leads for a cluster.
    pub fn server(&self, name: &ClusterName) -> Option<String> {
        self.file().known.get(name).map(|access| access.server.clone())
    }

    /// Lets somebody else have a name.
    pub fn take(&self, name: &ClusterName) {
        self.file().taken.insert(name.clone());
    }

    /// Makes it unreadable and unwritable, for all calls that follow.
    pub fn break_it(&self) {
        self.file().broken = true;
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, line: &str, edit: impl FnOnce(&mut File)) -> Result<Changed, KubeconfigError> {
        let call = self.calls.begin_now(line.to_owned())?;
        self.readable()?;
        let changed = {
            let mut file = self.file();
            let before = file.clone();
            edit(&mut file);
            *file != before
        };
        call.end()?;
        Ok(if changed { Changed::Yes } else { Changed::No })
    }
}

impl FakeKubeconfig {
    fn readable(&self) -> Result<(), KubeconfigError> {
        if self.file().broken {
            Err(KubeconfigError::Personal { source: "it is broken".into() })
        } else {
            Ok(())
        }
    }
}

impl Kubeconfig for FakeKubeconfig {
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError> {
        self.calls.begin_now("kubeconfig has".to_owned())?.end()?;
        self.readable()?;
        let file = self.file();
        Ok(file.known.get(name) == Some(access) && file.current.as_ref() == Some(name))
    }

    fn has_entry(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError> {
        self.readable()?;
        Ok(self.file().known.get(name) == Some(access))
    }

    /// By the certificate authority, like the real one.
    fn leads_to(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError> {
        self.readable()?;
        Ok(self.file().known.get(name).is_some_and(|known| known.ca_pem == access.ca_pem))
    }

    fn refusal(&self, name: &ClusterName) -> Option<KubeconfigRefusal> {
        let file = self.file();
        let taken = || NameTaken { path: PATH.into(), what: "context", name: name.to_string() };
        match () {
            () if file.broken => Some(KubeconfigRefusal::Unusable("it is broken".into())),
            () if file.taken.contains(name) => Some(taken().into()),
            () => None,
        }
    }

    fn path(&self, _: &ClusterName) -> PathBuf {
        PATH.into()
    }

    fn own_path(&self, name: &ClusterName) -> PathBuf {
        format!("/home/.flotilla/clusters/{name}/kubeconfig").into()
    }

    fn is_current(&self, name: &ClusterName) -> Result<bool, KubeconfigError> {
        self.calls.begin_now("kubeconfig is-current".to_owned())?.end()?;
        self.readable()?;
        Ok(self.file().current.as_ref() == Some(name))
    }

    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, KubeconfigError> {
        if self.file().taken.contains(name) {
            return Err(KubeconfigError::Personal { source: format!("somebody else has {name}").into() });
        }
        self.change("kubeconfig put", |file| {
            file.known.insert(name.clone(), access.clone());
            file.current = Some(name.clone());
        })
    }

    fn unset_context(&self, name: &ClusterName) -> Result<Changed, KubeconfigError> {
        self.change("kubeconfig unset_context", |file| {
            file.current.take_if(|current| current == name);
        })
    }

    fn remove(&self, name: &ClusterName, _: &[Vec<u8>]) -> Result<KubeconfigRemoval, KubeconfigError> {
        let changed = self.change("kubeconfig remove", |file| {
            file.known.remove(name);
            file.current.take_if(|current| current == name);
        })?;
        let left = self.file().taken.contains(name).then(|| format!("somebody else has {name}"));
        Ok(KubeconfigRemoval { changed, left })
    }
}
