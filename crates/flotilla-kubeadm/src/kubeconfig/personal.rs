//! The user's kubeconfig, and the cluster's own one beside its state.
//!
//! The cluster's own file is also the proof of what the cluster has written: it has the certificate authority by which its
//! entries in the user's file are known.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use flotilla_core::{ApiAccess, Changed, Kubeconfig, KubeconfigError, KubeconfigRefusal, KubeconfigRemoval};
use flotilla_spec::ClusterName;

use super::{Entry, Identity, KubeconfigError as FileError, KubeconfigFile, Kubeconfigs, State};

/// What the user's own kubectl reads, and what flotilla itself has written.
#[derive(Debug)]
pub struct PersonalKubeconfig {
    /// The user's `KUBECONFIG`.
    variable: Option<OsString>,
    user_home: PathBuf,
    /// The user behind sudo, who gets what has to be made.
    owner: Option<(u32, u32)>,
    /// Has a directory for each cluster.
    clusters: PathBuf,
}

impl PersonalKubeconfig {
    pub fn new(
        variable: Option<&OsStr>,
        user_home: &Path,
        owner: Option<(u32, u32)>,
        clusters: &Path,
    ) -> Self {
        let (user_home, clusters) = (user_home.to_owned(), clusters.to_owned());
        Self { variable: variable.map(ToOwned::to_owned), user_home, owner, clusters }
    }

    /// What the user's files have of the cluster.
    fn state(&self, name: &ClusterName, access: &ApiAccess) -> Result<State, KubeconfigError> {
        let entry = entry(name, access);
        self.files().state(&entry, &self.known(&entry)).map_err(failed)
    }

    fn files(&self) -> Kubeconfigs {
        Kubeconfigs::of(self.variable.as_deref(), &self.user_home).owned_by(self.owner)
    }

    fn own(&self, name: &ClusterName) -> KubeconfigFile {
        KubeconfigFile::open(self.own_path(name))
    }

    /// What the cluster was when it was last published. A file of ours that is damaged proves nothing.
    fn written(&self, name: &ClusterName) -> Option<Identity> {
        self.own(name).identity(name.as_ref()).ok().flatten()
    }

    /// What the cluster is now, and was before.
    fn known(&self, entry: &Entry) -> Vec<Identity> {
        let before = entry.name.parse().ok().and_then(|name| self.written(&name));
        std::iter::once(Identity::of(entry)).chain(before).collect()
    }

    /// Ours alone: a damaged one is written again.
    fn put_own(&self, name: &ClusterName, entry: &Entry) -> Result<Changed, KubeconfigError> {
        let own = self.own(name);
        let io = |source| KubeconfigError::Own { action: "write", path: self.own_path(name), source };
        if own.state(entry).is_err() {
            std::fs::remove_file(own.path()).map_err(io)?;
        }
        own.put(entry).map_err(|error| io(io::Error::other(error)))
    }
}

impl Kubeconfig for PersonalKubeconfig {
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError> {
        let same = State::Same { current: true };
        let own = self.own(name).state(&entry(name, access));
        Ok(own.is_ok_and(|own| own == same) && self.state(name, access)? == same)
    }

    fn has_entry(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError> {
        Ok(matches!(self.state(name, access)?, State::Same { .. }))
    }

    fn leads_to(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError> {
        let entry = entry(name, access);
        self.files().leads_to(&entry, &self.known(&entry)).map_err(failed)
    }

    fn refusal(&self, name: &ClusterName) -> Option<KubeconfigRefusal> {
        let known: Vec<_> = self.written(name).into_iter().collect();
        self.files().taken(name.as_ref(), &known).unwrap_or_else(Some).map(|error| match error {
            FileError::Taken(taken) => KubeconfigRefusal::Taken(taken),
            error => KubeconfigRefusal::Unusable(Box::new(error)),
        })
    }

    fn path(&self, name: &ClusterName) -> PathBuf {
        self.files().path_of(name.as_ref()).to_owned()
    }

    fn own_path(&self, name: &ClusterName) -> PathBuf {
        self.clusters.join(name.as_ref()).join("kubeconfig")
    }

    fn is_current(&self, name: &ClusterName) -> Result<bool, KubeconfigError> {
        let known: Vec<_> = self.written(name).into_iter().collect();
        self.files().is_current(name.as_ref(), &known).map_err(failed)
    }

    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, KubeconfigError> {
        let entry = entry(name, access);
        // First, and ours in any case: killed in between, what the cluster was before is still known.
        let put = self.files().put(&entry, &self.known(&entry)).map_err(failed);
        let own = self.put_own(name, &entry)?;
        Ok(put?.or(own))
    }

    fn unset_context(&self, name: &ClusterName) -> Result<Changed, KubeconfigError> {
        let known: Vec<_> = self.written(name).into_iter().collect();
        self.files().unset_context(name.as_ref(), &known).map_err(failed)
    }

    fn remove(
        &self,
        name: &ClusterName,
        authorities: &[Vec<u8>],
    ) -> Result<KubeconfigRemoval, KubeconfigError> {
        let of_machines = authorities.iter().cloned().map(Identity::of_authority);
        let known: Vec<_> = self.written(name).into_iter().chain(of_machines).collect();
        let files = self.files();
        let changed = files.remove(name.as_ref(), &known).map_err(failed)?;
        let left = files.taken(name.as_ref(), &known).map_err(failed)?;
        Ok(KubeconfigRemoval { changed, left: left.map(|left| left.to_string()) })
    }
}

fn entry(name: &ClusterName, access: &ApiAccess) -> Entry {
    Entry {
        name: name.to_string(),
        server: access.server.clone(),
        ca_pem: access.ca_pem.clone(),
        client_cert_pem: access.client_cert_pem.clone(),
        client_key_pem: access.client_key_pem.clone(),
        namespace: None,
    }
}

fn failed(error: FileError) -> KubeconfigError {
    KubeconfigError::Personal { source: Box::new(error) }
}
