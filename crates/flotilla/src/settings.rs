//! The one place that reads the environment.

use std::path::PathBuf;

/// What the environment says.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The state folder.
    pub(crate) home: PathBuf,
    /// Whether bars may be drawn on a terminal.
    pub(crate) progress: bool,
}

impl Settings {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub(crate) fn from_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = set("FLOTILLA_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".flotilla")))
            .unwrap_or_else(|| PathBuf::from("/var/lib/flotilla"));
        Self {
            home: std::path::absolute(&home).unwrap_or(home),
            progress: set("FLOTILLA_NO_PROGRESS").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }
}
