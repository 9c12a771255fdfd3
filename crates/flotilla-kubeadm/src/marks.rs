//! The marks by which a machine says what it is to its cluster. They are on its disk, and stay when it is turned off.

use flotilla_core::{BootstrapError, GuestError, Machine, Membership, Power};

use crate::files::{FOUNDED, INITIALISED, JOINED};
use crate::phase::in_node;

/// Those of a machine whose data belongs to a cluster that has answered: it was initialised, its join was finished, or
/// it is a founder that is not finished yet.
pub(crate) const ALL: [&str; 3] = [INITIALISED, JOINED, FOUNDED];

/// What the machine is. Of one that is off this is known where its disk can be reached.
pub(crate) async fn membership(machine: &dyn Machine) -> Result<Membership, BootstrapError> {
    for (mark, membership) in [
        (INITIALISED, Membership::Member),
        (JOINED, Membership::Member),
        (FOUNDED, Membership::InitialMember),
    ] {
        if has(machine, mark).await? {
            return Ok(membership);
        }
    }
    Ok(Membership::None)
}

pub(crate) async fn has_joined(machine: &dyn Machine) -> Result<bool, BootstrapError> {
    Ok(membership(machine).await? == Membership::Member)
}

pub(crate) async fn has(machine: &dyn Machine, mark: &str) -> Result<bool, BootstrapError> {
    Ok(read(machine, mark).await?.is_some())
}

/// Reads a small file of a machine, on or off; none where there is none, or where nobody can know.
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

/// Nobody can say what a machine is whose host does not answer.
pub(crate) fn unknown(machine: &dyn Machine, why: String) -> BootstrapError {
    let node = machine.name().to_string();
    in_node("read a file", machine)(GuestError::Unknown { node, why })
}

pub(crate) async fn put(machine: &dyn Machine, mark: &str) -> Result<(), BootstrapError> {
    machine.guest().write(mark, 0o644, b"").await.map_err(in_node("record the membership", machine))
}

/// Takes the marks from a machine that is off, as far as its disk can be reached.
pub(crate) fn remove_from_disk(machine: &dyn Machine) -> Result<(), BootstrapError> {
    ALL.into_iter().try_for_each(|mark| {
        machine.remove_from_disk(mark).map_err(|error| BootstrapError::Api {
            action: format!("remove {mark} of node {}", machine.name()),
            source: error.into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake::FakeMachine;

    #[tokio::test]
    async fn a_mark_says_what_a_machine_is_also_while_it_is_off() {
        for (mark, wanted) in [
            (INITIALISED, Membership::Member),
            (JOINED, Membership::Member),
            (FOUNDED, Membership::InitialMember),
            ("/var/lib/flotilla/founding", Membership::None),
        ] {
            let machine = FakeMachine::new(&[(mark, b"")], &[]);
            assert_eq!(membership(&machine).await.unwrap(), wanted, "{mark}");
            assert_eq!(membership(&machine.off()).await.unwrap(), wanted, "{mark}, off");
        }
    }

    #[tokio::test]
    async fn a_disk_that_cannot_be_read_is_an_error_and_not_a_machine_without_marks() {
        let machine = FakeMachine::new(&[(JOINED, b"")], &[]);
        machine.break_file(INITIALISED);
        assert!(has_joined(&machine).await.is_err());
        let error = has_joined(&machine.off()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read /var/lib/flotilla/initialised of node demo");
    }
}
