//! The cluster that a command is about, and the one that a user has selected for commands that name none.

use std::io;

use flotilla_spec::ClusterName;

use crate::owned::Directory;
use crate::settings::Settings;

/// The file in the state directory that has the name of the selected cluster.
const SELECTED: &str = "selected-profile";

/// What was typed, and what counts where nothing was.
#[derive(Debug)]
pub(crate) struct Profile {
    given: Option<String>,
    default: String,
}

impl Profile {
    /// `default` counts where none is selected.
    pub(crate) fn new(given: Option<String>, settings: &Settings, default: &str) -> Self {
        Self { given, default: selected(settings).unwrap_or_else(|| default.to_owned()) }
    }

    /// The name that was typed.
    pub(crate) fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    pub(crate) fn name(&self) -> &str {
        self.given().unwrap_or(&self.default)
    }

    /// The cluster of commands that name none.
    pub(crate) fn default(&self) -> &str {
        &self.default
    }
}

/// The name of the selected cluster, if one is.
pub(crate) fn selected(settings: &Settings) -> Option<String> {
    let text = state(settings).and_then(|state| state.read(SELECTED)).ok()?;
    text.trim().parse().ok().map(|name: ClusterName| name.to_string())
}

pub(crate) fn select(settings: &Settings, name: &ClusterName) -> io::Result<()> {
    state(settings)?.replace(SELECTED, format!("{name}\n").as_bytes())
}

/// Selects none again. That none was selected is a success.
pub(crate) fn unselect(settings: &Settings) -> io::Result<()> {
    match state(settings).and_then(|state| state.remove(SELECTED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn state(settings: &Settings) -> io::Result<Directory> {
    Directory::open(&settings.home, settings.owner)
}
