//! A host of fakes that share one log.

use std::sync::{Arc, Mutex};

use flotilla_core::{Cancel, Event, Host};

use super::{Calls, FakeBootstrapper, FakeBundles, FakeComputer, FakeDriver, FakeKubeconfig};

/// Everything that commands are wired to, but for their state directory.
#[derive(Debug)]
pub struct FakeHost {
    pub calls: Calls,
    pub driver: Arc<FakeDriver>,
    pub computer: Arc<FakeComputer>,
    /// The computer alone, as commands are wired to it.
    pub hosts: Vec<Arc<dyn Host>>,
    pub bootstrapper: Arc<FakeBootstrapper>,
    pub bundles: Arc<FakeBundles>,
    pub kubeconfig: Arc<FakeKubeconfig>,
    pub events: Mutex<Vec<Event>>,
    pub cancel: Cancel,
}

impl Default for FakeHost {
    fn default() -> Self {
        let calls = Calls::default();
        let driver = Arc::new(FakeDriver::new(&calls));
        let computer = Arc::new(FakeComputer::new("local", &calls, std::slice::from_ref(&driver)));
        Self {
            hosts: vec![computer.clone()],
            computer,
            driver,
            bootstrapper: Arc::new(FakeBootstrapper::new(&calls)),
            bundles: Arc::new(FakeBundles::new(&calls)),
            kubeconfig: Arc::new(FakeKubeconfig::new(&calls)),
            calls,
            events: Mutex::default(),
            cancel: Cancel::new(),
        }
    }
}

impl FakeHost {
    /// What was reported until now; a new log begins.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().expect("a reporter does not panic while it holds the lock"))
    }
}
