//! How a node is kept apart from the host.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SpecError;
use crate::text::one_of;

/// Whether root in a node is root of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Root in the node is root of the host, with fewer capabilities.
    #[default]
    None,
    /// The node has a user namespace: root in it is nobody on the host.
    User,
}

impl Isolation {
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::User => "user",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isolation {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        one_of(given, "isolation", &[Self::None, Self::User].map(|one| (one.name(), one)))
    }
}
