//! What `systemctl` and `flotilla-init` ask PID 1, and what it says: one JSON line each way.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::service::Unit;
use crate::status::NodeStatus;

/// A question, or something to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// How the node is.
    Node,
    /// Something about one service.
    #[serde(untagged)]
    Unit { verb: Verb, unit: Unit },
}

/// What to do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    Start,
    Stop,
    Restart,
    #[serde(alias = "is-active")]
    Status,
}

/// What PID 1 says to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Node(NodeStatus),
    Status(Status),
    /// The node has no such service.
    NoSuchUnit(Unit),
    Refused(String),
}

/// A service's state, with a remark for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub unit: Unit,
    pub state: State,
    pub detail: String,
}

/// How a service stands, in systemd's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Active,
    Activating,
    Deactivating,
    Inactive,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Activating => "activating",
            Self::Deactivating => "deactivating",
            Self::Inactive => "inactive",
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.unit, self.state, self.detail)
    }
}
