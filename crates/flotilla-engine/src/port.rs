//! What the engine needs from others. Each port takes and gives own types and has a fake in the test kit.

mod bootstrap;
mod certificate;
mod driver;
mod exec;
mod kubeconfig;

pub use bootstrap::{
    ApiAccess, BootstrapError, Bootstrapper, Condition, Drain, KubernetesState, Member, Membership,
};
pub use certificate::{Certificate, Certificates};
pub use driver::{Driver, DriverError, Finding, Machine, MachineState, Power, Refusal, Severity, Subnet};
pub use exec::{Attach, Cmd, Exec, ExecError, ExecOutput};
pub use kubeconfig::{Kubeconfig, Unpublished};

/// Whether an idempotent call had anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
