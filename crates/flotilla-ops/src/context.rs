//! What use cases work with.

use flotilla_core::{Bootstrapper, Bundles, Cancel, Event, Kubeconfig, Reporter};
use flotilla_engine::converge::{Engine, Lanes};
use flotilla_engine::store::{ClusterStore, Locked, WhenBusy};
use flotilla_engine::{EngineError, Fleet, View};
use flotilla_spec::{ClusterName, HostSize};

use crate::OpError;

/// The host, the clusters on it and whoever listens. Built once: by the command line, another front end or a test.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub fleet: Fleet<'a>,
    pub bootstrapper: &'a dyn Bootstrapper,
    pub bundles: &'a dyn Bundles,
    pub kubeconfig: &'a dyn Kubeconfig,
    pub store: &'a ClusterStore,
    pub reporter: &'a dyn Reporter,
    pub cancel: &'a Cancel,
    pub host: HostSize,
    /// Whether this process may change the host.
    pub is_root: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("store", &self.store)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    /// What changes and observes one cluster. Its machines are listed once, when they are first needed: take it under the
    /// cluster's lock, and another one after a user was asked.
    pub fn engine(&self, cluster: &ClusterName) -> Engine<'a> {
        Engine {
            fleet: self.fleet,
            bootstrapper: self.bootstrapper,
            bundles: self.bundles,
            kubeconfig: self.kubeconfig,
            store: self.store,
            reporter: self.reporter,
            cancel: self.cancel,
            lanes: Lanes::of_cores(self.host.cpus),
            view: View::of(cluster),
        }
    }

    /// Refuses to go on without root, before anything is touched.
    pub async fn require_root(&self) -> Result<(), OpError> {
        if self.is_root {
            return Ok(());
        }
        let findings = self.fleet.examine().await;
        let found = findings.into_iter().find(|finding| finding.code == "HOST_PERMISSION");
        let cure = found.map(|finding| finding.cure).unwrap_or_default();
        Err(EngineError::NotRoot { cure }.into())
    }

    /// Takes the right to change a cluster. `what` is what others read who wait for it.
    pub fn lock(&self, name: &ClusterName, what: &str, busy: WhenBusy) -> Result<Locked, OpError> {
        let lock = self.store.lock(name, what, busy, self.cancel, |holder| {
            let text = match holder {
                Some(holder) => {
                    format!("waiting for process {}: {} (since {})", holder.pid, holder.what, holder.since)
                }
                None => "waiting for another flotilla".to_owned(),
            };
            self.note(text);
        });
        Ok(lock?)
    }

    pub fn note(&self, text: impl Into<String>) {
        self.reporter.report(Event::Note { text: text.into() });
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.reporter.report(Event::Warning { text: text.into() });
    }
}
