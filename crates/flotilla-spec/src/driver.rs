//! Names of drivers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SpecError;

/// Who makes a machine.
///
/// People can only name those that exist ([`FromStr`]). What was saved is read whatever it names: a flotilla without that
/// driver says so when it needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriverName(Cow<'static, str>);

/// The driver of nodes that name none.
const DEFAULT: &str = "native";

impl DriverName {
    /// For drivers to name themselves.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name, unless it is the default: naming that is the same as naming none.
    pub(crate) fn unless_default(name: Option<Self>) -> Option<Self> {
        name.filter(|name| *name != Self::default())
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
        if given != DEFAULT {
            return Err(SpecError::Driver { given: given.to_owned() });
        }
        Ok(Self::default())
    }
}

/// This host's operating system and processor, as Go calls them: `linux/amd64`.
pub(crate) fn platform() -> String {
    use std::env::consts::{ARCH, OS};
    let processor = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{OS}/{processor}")
}
