//! A host whose drivers and network are fakes.

use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::{Driver, DriverError, Finding, Host, IdRange, Network};

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
        let network = FakeNetwork::new(calls);
        for driver in drivers {
            driver.use_ports(&network.ports);
        }
        Self { name, network, drivers: drivers.to_vec() }
    }
}

#[async_trait]
impl Host for FakeComputer {
    fn name(&self) -> &str {
        self.name
    }

    /// The first that are not taken, from a million on.
    async fn free_ids(&self, taken: &[IdRange], count: usize) -> Result<Vec<IdRange>, DriverError> {
        let ranges = (0..)
            .map(|number| IdRange { first_id: 1_000_000 + number * IdRange::SIZE, count: IdRange::SIZE });
        let is_free = |range: &IdRange| !taken.iter().any(|taken| taken.overlaps(range));
        Ok(ranges.filter(is_free).take(count).collect())
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
