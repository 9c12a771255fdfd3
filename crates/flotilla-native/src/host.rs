//! The computer that this process runs on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::{Driver, DriverError, Finding, Host, IdRange, Network};

use crate::{examine, ids, on_thread};

/// This computer: one network, and the drivers that plug their machines into it.
pub struct LocalHost {
    /// The state directory.
    home: PathBuf,
    network: Arc<dyn Network>,
    drivers: Vec<Arc<dyn Driver>>,
}

impl std::fmt::Debug for LocalHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalHost").field("home", &self.home).finish_non_exhaustive()
    }
}

impl LocalHost {
    /// `home` is the state directory.
    pub fn new(home: &Path, network: Arc<dyn Network>, drivers: Vec<Arc<dyn Driver>>) -> Self {
        Self { home: home.to_owned(), network, drivers }
    }
}

#[async_trait]
impl Host for LocalHost {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn free_ids(&self, taken: &[IdRange], count: usize) -> Result<Vec<IdRange>, DriverError> {
        let (home, taken) = (self.home.clone(), taken.to_vec());
        Ok(on_thread(move || ids::free(&home, &taken, count)).await?)
    }

    async fn examine(&self) -> Vec<Finding> {
        let home = self.home.clone();
        on_thread(move || examine::examine(&home)).await
    }

    fn drivers(&self) -> Vec<&dyn Driver> {
        self.drivers.iter().map(AsRef::as_ref).collect()
    }

    fn network(&self) -> &dyn Network {
        self.network.as_ref()
    }
}
