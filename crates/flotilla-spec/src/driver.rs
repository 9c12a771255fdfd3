//! Names of drivers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SpecError;
use crate::text::one_of;

/// Who makes a machine.
///
/// People can only name those that exist ([`FromStr`]). What was saved is read whatever it names: a flotilla without that
/// driver says so when it needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriverName(Cow<'static, str>);

/// The driver of nodes that name none.
const DEFAULT: &str = "native";
/// Drivers that people know from elsewhere, and that are planned here.
const TO_COME: [&str; 4] = ["docker", "podman", "qemu", "ssh"];

impl DriverName {
    /// For drivers to name themselves.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl Default for DriverName {
    fn default() -> Self {
        Self::new(DEFAULT)
    }
}

impl AsRef<str> for DriverName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for DriverName {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        if TO_COME.contains(&given) {
            return Err(SpecError::DriverToCome { given: given.to_owned() });
        }
        one_of(given, "driver", &[(DEFAULT, DEFAULT)]).map(Self::new)
    }
}
