//! What commands about clusters share: the use cases' context, a runtime, signals.

use std::future::Future;
use std::io;

use flotilla_engine::EngineError;
use flotilla_engine::store::ClusterStore;
use flotilla_ops::{Context, OpError};
use flotilla_spec::ClusterName;
use tokio::runtime::Runtime;

use crate::interrupt;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::wiring::{Replacement, Wiring};

/// A command's surroundings.
pub(crate) struct Cx<'a> {
    pub(crate) name: ClusterName,
    pub(crate) screen: &'a Screen,
    pub(crate) store: ClusterStore,
    wiring: &'a Wiring,
    runtime: Runtime,
}

impl<'a> Cx<'a> {
    /// Checks the name; touches nothing.
    pub(crate) fn new(profile: &str, screen: &'a Screen, wiring: &'a Wiring) -> Result<Self, OpError> {
        let name: ClusterName = profile.parse()?;
        screen.is_about(&name);
        let runtime = runtime()?;
        Ok(Self { name, screen, store: wiring.store.clone(), wiring, runtime })
    }

    /// What the use cases work with.
    pub(crate) fn context(&self) -> Context<'_> {
        self.wiring.context(self.screen.reporter())
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.screen.settings()
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Whether signals are ours to handle: those of a test's process are not.
    pub(crate) fn handles_signals(&self) -> bool {
        self.wiring.cancels_on_signals
    }

    /// From here on Ctrl-C ends what runs, in an orderly way.
    pub(crate) fn handle_signals(&self) -> Result<(), OpError> {
        handle_signals(self.screen, self.wiring)
    }

    /// Lets a program take our place. Its end is ours.
    pub(crate) fn replace_us(&self, replacement: Replacement) -> io::Result<()> {
        (self.wiring.replace_us)(replacement)
    }
}

/// What use cases run on.
pub(crate) fn runtime() -> Result<Runtime, OpError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(2).enable_all().build();
    Ok(built.map_err(|source| EngineError::Io { action: "start", path: "the runtime".into(), source })?)
}

/// From here on Ctrl-C ends what runs, in an orderly way.
pub(crate) fn handle_signals(screen: &Screen, wiring: &Wiring) -> Result<(), OpError> {
    if !wiring.cancels_on_signals {
        return Ok(());
    }
    interrupt::cancel_on_signal(&wiring.cancel, screen.bars_remover())
        .map_err(|source| EngineError::Io { action: "handle", path: "signals".into(), source }.into())
}
