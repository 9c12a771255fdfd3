//! The questions that a node's own program answers: how it is, and whether it is configured as it should be.

use std::time::Duration;

use flotilla_node_api::{
    CHECK, CONFIGURE, Configured, FAILURE, INIT, NodeConfig, NodeStatus, PROTOCOL, STATUS,
};
use serde::de::DeserializeOwned;

use crate::changed::Changed;
use crate::driver::Machine;
use crate::guest::{Cmd, ExecOutput, GuestError};

/// How long a node may take: it waits for nobody but the kernel, and at most for the end of a service.
const LIMIT: Duration = Duration::from_mins(1);

/// How a node is.
pub async fn status(machine: &dyn Machine) -> Result<NodeStatus, GuestError> {
    let status: NodeStatus = ask(machine, &[STATUS], Vec::new()).await?;
    if status.protocol == PROTOCOL { Ok(status) } else { Err(other_version(machine)) }
}

/// What differs from a node's configuration, a line each for people.
pub async fn differences(machine: &dyn Machine, config: &NodeConfig) -> Result<Vec<String>, GuestError> {
    let checked: Configured = ask(machine, &[CONFIGURE, CHECK], json(config)).await?;
    Ok(checked.differs)
}

/// Changes what differs from a node's configuration.
pub async fn configure(machine: &dyn Machine, config: &NodeConfig) -> Result<Changed, GuestError> {
    let configured: Configured = ask(machine, &[CONFIGURE], json(config)).await?;
    Ok(if configured.differs.is_empty() { Changed::No } else { Changed::Yes })
}

fn json(config: &NodeConfig) -> Vec<u8> {
    serde_json::to_vec(config).expect("it is made of texts and addresses")
}

async fn ask<T: DeserializeOwned>(
    machine: &dyn Machine,
    args: &[&str],
    stdin: Vec<u8>,
) -> Result<T, GuestError> {
    let words = std::iter::once(&INIT).chain(args).copied();
    match machine.guest().run(Cmd { stdin, ..Cmd::new(words).within(LIMIT) }).await {
        Ok(ExecOutput { stdout, .. }) => serde_json::from_slice(&stdout).map_err(|_| other_version(machine)),
        Err(error) if is_of_another_version(&error) => Err(other_version(machine)),
        Err(error) => Err(error),
    }
}

/// Whether the program failed as none of ours does: an older one takes these arguments for a user's.
fn is_of_another_version(error: &GuestError) -> bool {
    let GuestError::Failed { status, tail, .. } = error else { return false };
    let says_why = tail.iter().any(|line| line.starts_with(FAILURE) && !line.contains("another version"));
    status.starts_with("exit status") && !says_why
}

fn other_version(machine: &dyn Machine) -> GuestError {
    GuestError::OtherVersion { node: machine.name().to_string() }
}
