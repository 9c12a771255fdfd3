use serde::{Deserialize, Serialize};

/// Whether an idempotent call had anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Changed {
    Yes,
    No,
}

impl Changed {
    pub fn is_yes(self) -> bool {
        self == Self::Yes
    }

    /// Yes if either is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_yes() { self } else { other }
    }
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Self::Yes } else { Self::No }
    }
}

impl From<Changed> for bool {
    fn from(changed: Changed) -> Self {
        changed.is_yes()
    }
}
