//! How a node is.

use serde::{Deserialize, Serialize};

use crate::control::State;
use crate::service::Unit;

/// What a node knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub protocol: u32,
    /// When its PID 1 began, in seconds since 1970, by the clock of that moment.
    pub booted_at: i64,
    /// How long ago that is, in milliseconds, whatever became of the clock.
    pub up_for_ms: u64,
    pub cgroup: Cgroup,
    pub units: Vec<UnitStatus>,
    /// Whether the virtual IP is on its link.
    pub holds_virtual_ip: bool,
}

/// Which version of control groups the node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cgroup {
    V1,
    V2,
}

/// How a service is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    pub unit: Unit,
    pub state: State,
    /// Since the node was booted.
    pub starts: u32,
    /// How often it has ended by itself since then.
    pub deaths: u32,
    /// How it ended last: `exit status 1`, `signal 9`.
    pub last_exit: Option<String>,
}

impl NodeStatus {
    pub fn unit(&self, unit: &Unit) -> Option<&UnitStatus> {
        self.units.iter().find(|status| status.unit == *unit)
    }

    /// How often a service has died since the node was booted.
    pub fn deaths(&self, unit: &Unit) -> u32 {
        self.unit(unit).map_or(0, |status| status.deaths)
    }

    pub fn is_active(&self, unit: &Unit) -> bool {
        self.unit(unit).is_some_and(|status| status.state == State::Active)
    }
}
