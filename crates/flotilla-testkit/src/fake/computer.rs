//! A host whose drivers and network are fakes.

use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::{Driver, DriverError, Finding, Host, HostFacts, Network};

use super::{Calls, FakeDriver, FakeNetwork};

/// A host that lacks nothing.
#[derive(Debug)]
pub struct FakeComputer {
    name: &'static str,
    pub network: FakeNetwork,
    drivers: Vec<Arc<FakeDriver>>,
}

impl FakeComputer {
    pub fn new(name: &'static str, calls: &Calls, drivers: &[Arc<FakeDriver>]) -> Self {
        Self { name, network: FakeNetwork::new(calls), drivers: drivers.to_vec() }
    }
}

#[async_trait]
impl Host for FakeComputer {
    fn name(&self) -> &str {
        self.name
    }

    async fn facts(&self) -> Result<HostFacts, DriverError> {
        Ok(HostFacts { lowers_oom_scores: true })
    }

    async fn examine(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn drivers(&self) -> Vec<&dyn Driver> {
        self.drivers.iter().map(|driver| driver.as_ref() as &dyn Driver).collect()
    }

    fn network(&self) -> &dyn Network {
        &self.network
    }
}
