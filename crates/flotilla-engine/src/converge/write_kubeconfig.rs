//! The user's kubeconfig. It belongs to the user: if it cannot be read or written, that is only a warning.

use flotilla_spec::ClusterName;

use super::Engine;
use crate::error::EngineError;
use flotilla_core::event::Event;
use flotilla_core::explain::one_line;
use flotilla_core::{ApiAccess, Changed, KubeconfigError, KubeconfigRemoval, Power};

impl Engine<'_> {
    pub(super) fn write_kubeconfig(
        &self,
        name: &ClusterName,
        access: &ApiAccess,
    ) -> Result<Changed, EngineError> {
        self.or_warn(self.kubeconfig.put(name, access), || {
            (
                format!("cannot add cluster {name} to your kubeconfig"),
                "fix it, then run `flotilla update-context`".into(),
            )
        })
    }

    pub(super) fn unset_context(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        self.or_warn(self.kubeconfig.unset_context(name), || {
            let cure = format!("if {name} is its current context, select another one");
            (format!("cannot unset the current context {name} in your kubeconfig"), cure)
        })
    }

    pub(super) fn is_current(&self, name: &ClusterName) -> Result<bool, EngineError> {
        let current =
            self.kubeconfig.is_current(name).map(|current| if current { Changed::Yes } else { Changed::No });
        let current = self.or_warn(current, || {
            let cure = format!("if {name} is its current context, it is kept");
            ("cannot read your kubeconfig".to_owned(), cure)
        });
        Ok(current?.is_yes())
    }

    pub(super) fn remove_from_kubeconfig(
        &self,
        name: &ClusterName,
        authorities: &[Vec<u8>],
    ) -> Result<Changed, EngineError> {
        let removed = self.kubeconfig.remove(name, authorities).map(|KubeconfigRemoval { changed, left }| {
            if let Some(left) = left {
                let text = format!("{left}: left unchanged");
                self.reporter.report(Event::Note { text });
            }
            changed
        });
        self.or_warn(removed, || {
            let cure = format!("remove cluster, user and context {name} from it by hand");
            (format!("cannot remove cluster {name} from your kubeconfig"), cure)
        })
    }

    /// The certificate authorities on the machines of a cluster that are on. Empty if they do not answer.
    pub(super) async fn authorities(&self) -> Vec<Vec<u8>> {
        let mut authorities = Vec::new();
        let machines = self.view.machines(self.fleet, &[]).await;
        for machine in machines.unwrap_or_default().into_values() {
            if machine.state().power == Power::On
                && let Some(authority) = self.bootstrapper.authority(machine.as_ref()).await
                && !authorities.contains(&authority)
            {
                authorities.push(authority);
            }
        }
        authorities
    }

    /// Turns an error into a warning with a hint.
    fn or_warn(
        &self,
        done: Result<Changed, KubeconfigError>,
        told: impl FnOnce() -> (String, String),
    ) -> Result<Changed, EngineError> {
        match done {
            Err(KubeconfigError::Personal { source }) => {
                let (what, cure) = told();
                let reason = one_line(source.as_ref());
                self.reporter.report(Event::Warning { text: format!("{what}: {reason}; {cure}") });
                Ok(Changed::No)
            }
            done => Ok(done?),
        }
    }
}

/// The result of reading the file; none on an error.
pub(super) fn if_readable<T>(read: Result<T, KubeconfigError>) -> Result<Option<T>, EngineError> {
    match read {
        Err(KubeconfigError::Personal { .. }) => Ok(None),
        read => Ok(Some(read?)),
    }
}
