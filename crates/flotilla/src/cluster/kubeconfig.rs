//! The person's kubeconfig, and the cluster's own one beside its state.

use std::path::PathBuf;

use flotilla_engine::EngineError;
use flotilla_engine::port::{ApiAccess, Changed, Kubeconfig};
use flotilla_engine::store::ClusterStore;
use flotilla_kubeadm::kubeconfig::{self, Entry, KubeconfigError, KubeconfigFile, State};
use flotilla_spec::ClusterName;

use crate::settings::Settings;

/// Where the person's own kubectl looks, as their environment says.
#[derive(Debug)]
pub(crate) struct PersonalKubeconfig {
    settings: Settings,
    store: ClusterStore,
}

impl PersonalKubeconfig {
    pub(crate) fn new(settings: &Settings, store: ClusterStore) -> Self {
        Self { settings: settings.clone(), store }
    }

    /// The file in which the cluster is, or would be.
    pub(crate) fn file(&self, name: &ClusterName) -> KubeconfigFile {
        let path =
            kubeconfig::target(self.settings.kubeconfig.as_deref(), &self.settings.user_home, name.as_ref());
        KubeconfigFile::open(path).owned_by(self.settings.owner)
    }

    /// The file of `flotilla kubectl`: it has this cluster and no other.
    pub(crate) fn own_path(&self, name: &ClusterName) -> PathBuf {
        self.store.folder(name).join("kubeconfig")
    }

    /// What the person's file has of the cluster.
    pub(crate) fn state(&self, name: &ClusterName, access: &ApiAccess) -> Result<State, EngineError> {
        self.file(name).state(&entry(name, access)).map_err(failed)
    }

    /// Whether it leads to the cluster, with the credentials of whichever control plane.
    pub(crate) fn leads_to(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, EngineError> {
        self.file(name).leads_to(&entry(name, access)).map_err(failed)
    }
}

impl Kubeconfig for PersonalKubeconfig {
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, EngineError> {
        let own = KubeconfigFile::open(self.own_path(name)).state(&entry(name, access)).map_err(failed)?;
        let same = State::Same { current: true };
        Ok(own == same && self.state(name, access)? == same)
    }

    fn is_current(&self, name: &ClusterName) -> Result<bool, EngineError> {
        self.file(name).is_current(name.as_ref()).map_err(failed)
    }

    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, EngineError> {
        let entry = entry(name, access);
        KubeconfigFile::open(self.own_path(name)).put(&entry, true).map_err(failed)?;
        self.file(name).put(&entry, true).map(changed).map_err(failed)
    }

    fn deselect(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        self.file(name).deselect(name.as_ref()).map(changed).map_err(failed)
    }

    fn remove(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        self.file(name).remove(name.as_ref()).map(changed).map_err(failed)
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

fn changed(changed: kubeconfig::Changed) -> Changed {
    match changed {
        kubeconfig::Changed::Yes => Changed::Yes,
        kubeconfig::Changed::No => Changed::No,
    }
}

fn failed(error: KubeconfigError) -> EngineError {
    EngineError::Kubeconfig { source: Box::new(error) }
}
