//! A kubeconfig that is a map.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flotilla_engine::EngineError;
use flotilla_engine::port::{ApiAccess, Changed, Kubeconfig};
use flotilla_spec::ClusterName;

use super::Calls;

#[derive(Debug, Default)]
pub struct FakeKubeconfig {
    calls: Calls,
    file: Mutex<File>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct File {
    known: BTreeMap<ClusterName, ApiAccess>,
    current: Option<ClusterName>,
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

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, line: &str, edit: impl FnOnce(&mut File)) -> Result<Changed, EngineError> {
        let call = self.calls.begin_now(line.to_owned())?;
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

impl Kubeconfig for FakeKubeconfig {
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, EngineError> {
        self.calls.begin_now("kubeconfig has".to_owned())?.end()?;
        let file = self.file();
        Ok(file.known.get(name) == Some(access) && file.current.as_ref() == Some(name))
    }

    fn is_current(&self, name: &ClusterName) -> Result<bool, EngineError> {
        self.calls.begin_now("kubeconfig is-current".to_owned())?.end()?;
        Ok(self.file().current.as_ref() == Some(name))
    }

    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, EngineError> {
        self.change("kubeconfig put", |file| {
            file.known.insert(name.clone(), access.clone());
            file.current = Some(name.clone());
        })
    }

    fn deselect(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        self.change("kubeconfig deselect", |file| {
            file.current.take_if(|current| current == name);
        })
    }

    fn remove(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        self.change("kubeconfig remove", |file| {
            file.known.remove(name);
            file.current.take_if(|current| current == name);
        })
    }
}
