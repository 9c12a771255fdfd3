//! The real world behind the ports. The one place that names a driver.

use std::sync::Arc;

use flotilla_bundle::BundleStore;
use flotilla_core::{Bundles, Cancel, Driver, Reporter};
use flotilla_engine::store::ClusterStore;
use flotilla_kubeadm::Kubeadm;
use flotilla_linux::process::host_size;
use flotilla_native::Native;
use flotilla_ops::{Context, OpError};
use flotilla_spec::quantity::HostSize;

use crate::cluster::PersonalKubeconfig;
use crate::settings::Settings;

/// What every command is wired to.
pub(crate) struct Wiring {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) bootstrapper: Kubeadm,
    pub(crate) bundles: Box<dyn Bundles>,
    pub(crate) kubeconfig: PersonalKubeconfig,
    pub(crate) store: ClusterStore,
    pub(crate) cancel: Cancel,
    pub(crate) host: HostSize,
    pub(crate) is_root: bool,
}

impl Wiring {
    /// Touches nothing.
    pub(crate) fn real(settings: &Settings) -> Result<Self, OpError> {
        let cancel = Cancel::new();
        let asked = cancel.clone();
        let store = ClusterStore::new(&settings.home);
        Ok(Self {
            driver: Box::new(Native::new(&settings.home, &cancel)),
            bootstrapper: Kubeadm::new(Arc::new(move || asked.is_cancelled())),
            bundles: Box::new(BundleStore::open(settings.home.clone(), cancel.clone())?),
            kubeconfig: PersonalKubeconfig::new(settings, store.clone()),
            store,
            cancel,
            host: this_host(),
            is_root: rustix::process::geteuid().is_root(),
        })
    }

    pub(crate) fn context<'a>(&'a self, reporter: &'a dyn Reporter) -> Context<'a> {
        Context {
            driver: self.driver.as_ref(),
            bootstrapper: &self.bootstrapper,
            bundles: self.bundles.as_ref(),
            kubeconfig: &self.kubeconfig,
            store: &self.store,
            reporter,
            cancel: &self.cancel,
            host: self.host,
            is_root: self.is_root,
        }
    }
}

/// How large this host is.
pub(crate) fn this_host() -> HostSize {
    let host = host_size();
    HostSize { cpus: host.cpus, memory: host.memory }
}
