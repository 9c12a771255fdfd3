//! Files of a machine that is on or off.
//!
//! Only what is written inside of machines and nowhere else is read like this: certificates, which kubelets renew
//! themselves, and etcd's database. What Flotilla knows itself is in the machine's record.

use flotilla_core::{BootstrapError, GuestError, Machine, Power};

use crate::phase::in_node;

pub(crate) async fn has(machine: &dyn Machine, path: &str) -> Result<bool, BootstrapError> {
    Ok(read(machine, path).await?.is_some())
}

/// Reads a small file; none where there is none, or where nobody can know.
pub(crate) async fn read(machine: &dyn Machine, path: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
    match machine.state().power {
        Power::On => machine.guest().read(path).await.map_err(in_node("read a file", machine)),
        // What its disk says is not known either: whoever asks has to leave it alone before.
        Power::Unknown(why) => Err(unknown(machine, why)),
        Power::Off => machine.read_disk(path).map_err(|error| BootstrapError::Api {
            action: format!("read {path} of node {}", machine.name()),
            source: error.into(),
        }),
    }
}

/// Nobody can say what is in a machine whose host does not answer.
pub(crate) fn unknown(machine: &dyn Machine, why: String) -> BootstrapError {
    let node = machine.name().to_string();
    in_node("read a file", machine)(GuestError::Unknown { node, why })
}
