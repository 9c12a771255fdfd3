//! What a machine is to its cluster. It is recorded beside the machine's disk, and stays when the machine is off.
//!
//! The order of records and of what they are about decides what a kill leaves behind:
//!
//! ```text
//! init   Founding ─▶ kubeadm init ─▶ the API answers ─▶ Member in the first ─▶ InitialMember in the others
//! join   kubeadm join ─▶ Node object finished ─▶ Member
//! leave  None ─▶ out of etcd ─▶ kubeadm reset, data removed
//! ```

use flotilla_core::{BootstrapError, Machine, MachineRecord, Membership};

pub(crate) async fn of(machine: &dyn Machine) -> Result<Membership, BootstrapError> {
    Ok(machine.record().await?.membership)
}

pub(crate) async fn has_joined(machine: &dyn Machine) -> Result<bool, BootstrapError> {
    Ok(of(machine).await? == Membership::Member)
}

pub(crate) async fn set(machine: &dyn Machine, membership: Membership) -> Result<(), BootstrapError> {
    if of(machine).await? == membership {
        return Ok(());
    }
    Ok(machine.set_record(&MachineRecord { membership }).await?)
}

/// The machine does not belong to its cluster any more. That it bootstraps one stays recorded until its data is gone.
pub(crate) async fn end(machine: &dyn Machine) -> Result<(), BootstrapError> {
    if of(machine).await?.holds_data() { set(machine, Membership::None).await } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake::FakeMachine;

    #[tokio::test]
    async fn nothing_in_a_machine_is_asked_or_changed() {
        let machine = FakeMachine::new(&[("/var/lib/flotilla/joined", b"")], &[]);
        for machine in [machine.clone(), machine.off()] {
            assert_eq!(of(&machine).await.unwrap(), Membership::None, "no file in it makes it a member");
            set(&machine, Membership::Member).await.unwrap();
            set(&machine, Membership::Member).await.unwrap();
            assert!(has_joined(&machine).await.unwrap());
            end(&machine).await.unwrap();
            end(&machine).await.unwrap();
        }
        assert_eq!(machine.log(), ["record Member", "record None", "record Member", "record None"]);
    }

    #[tokio::test]
    async fn one_that_bootstraps_a_cluster_does_so_until_its_data_is_gone() {
        let machine = FakeMachine::new(&[], &[]).with_membership(Membership::Founding);
        end(&machine).await.unwrap();
        assert_eq!(of(&machine).await.unwrap(), Membership::Founding);
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_read_is_an_error_and_not_a_machine_without_a_cluster() {
        let machine = FakeMachine::new(&[], &[]).with_membership(Membership::Member);
        machine.break_record();
        for machine in [machine.clone(), machine.off()] {
            assert!(has_joined(&machine).await.is_err());
            assert!(end(&machine).await.is_err(), "what it was is not overwritten");
        }
    }
}
