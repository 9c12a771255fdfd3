//! The marks by which a machine says what it is to its cluster. They are on its disk, and stay when it is turned off.

use std::io;
use std::path::PathBuf;

use flotilla_engine::port::{BootstrapError, Machine, Power};

use crate::files::{INITIALISED, JOINED};
use crate::phase::in_node;

/// Those of a member: its join was finished, or it is the one that others have joined first.
pub(crate) const MEMBER: [&str; 2] = [INITIALISED, JOINED];

/// Whether the machine is a member. Of one that is off this is known where its disk can be reached.
pub(crate) async fn has_joined(machine: &dyn Machine) -> bool {
    for mark in MEMBER {
        if has(machine, mark).await {
            return true;
        }
    }
    false
}

pub(crate) async fn has(machine: &dyn Machine, mark: &str) -> bool {
    match machine.state().power {
        Power::On => matches!(machine.exec().get(mark).await, Ok(Some(_))),
        Power::Off => on_disk(machine, mark).is_some_and(|path| path.exists()),
    }
}

pub(crate) async fn put(machine: &dyn Machine, mark: &str) -> Result<(), BootstrapError> {
    machine.exec().put(mark, 0o644, b"").await.map_err(in_node("write down what the node is", machine))
}

/// Takes the marks of a member from a machine that is off, as far as its disk can be reached.
pub(crate) fn remove_from_disk(machine: &dyn Machine) -> Result<(), BootstrapError> {
    for path in MEMBER.iter().filter_map(|mark| on_disk(machine, mark)) {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let action = format!("remove {}", path.display());
                return Err(BootstrapError::Api { action, source: error.into() });
            }
            _ => {}
        }
    }
    Ok(())
}

fn on_disk(machine: &dyn Machine, mark: &str) -> Option<PathBuf> {
    Some(machine.var()?.join(mark.trim_start_matches("/var/")))
}
