//! The questions that a node's own program answers: how it is, and whether it is configured as it should be.

use std::time::Duration;

use flotilla_node_api::{
    CHECK, CONFIGURE, Configured, FAILURE, INIT, NodeConfig, NodeStatus, STATUS, understands,
};
use serde::de::DeserializeOwned;

use crate::changed::Changed;
use crate::driver::Machine;
use crate::guest::{Cmd, ExecOutput, GuestError};
use crate::session::Exit;

/// How long a node may take to answer: it waits for nobody but the kernel, which may give it a fraction of a CPU.
const ANSWER: Duration = Duration::from_secs(30);
/// How long it may take to change something: at most it waits for the end of a service.
const LIMIT: Duration = Duration::from_mins(1);
/// How long its answer may be: many times what it is in the largest cluster.
const MAX_ANSWER: usize = 1 << 20;

/// How a node is.
pub async fn status(machine: &dyn Machine) -> Result<NodeStatus, GuestError> {
    let status: NodeStatus = ask(machine, &[STATUS], Vec::new(), ANSWER).await?;
    if understands(status.protocol) { Ok(status) } else { Err(other_version(machine)) }
}

/// What differs from a node's configuration, a line each for people.
pub async fn differences(machine: &dyn Machine, config: &NodeConfig) -> Result<Vec<String>, GuestError> {
    ask_about(machine, &[CONFIGURE, CHECK], config, ANSWER).await
}

/// Changes what differs from a node's configuration.
pub async fn configure(machine: &dyn Machine, config: &NodeConfig) -> Result<Changed, GuestError> {
    let differed = ask_about(machine, &[CONFIGURE], config, LIMIT).await?;
    Ok(if differed.is_empty() { Changed::No } else { Changed::Yes })
}

/// What differs, or did. A node of another version is asked again in its own protocol, if we understand that.
async fn ask_about(
    machine: &dyn Machine,
    args: &[&str],
    config: &NodeConfig,
    limit: Duration,
) -> Result<Vec<String>, GuestError> {
    let answer = answer_about(machine, args, config, limit).await;
    let Err(GuestError::OtherVersion { .. }) = answer else { return answer };
    let theirs = status(machine).await?.protocol;
    if theirs == config.protocol {
        return answer;
    }
    answer_about(machine, args, &config.in_protocol(theirs), limit).await
}

async fn answer_about(
    machine: &dyn Machine,
    args: &[&str],
    config: &NodeConfig,
    limit: Duration,
) -> Result<Vec<String>, GuestError> {
    let answer: Configured = ask(machine, args, json(config), limit).await?;
    if answer.protocol == config.protocol { Ok(answer.differs) } else { Err(other_version(machine)) }
}

fn json(config: &NodeConfig) -> Vec<u8> {
    serde_json::to_vec(config).expect("it is made of texts and addresses")
}

async fn ask<T: DeserializeOwned>(
    machine: &dyn Machine,
    args: &[&str],
    stdin: Vec<u8>,
    limit: Duration,
) -> Result<T, GuestError> {
    let words = std::iter::once(&INIT).chain(args).copied();
    let cmd = Cmd { stdin, max_output: Some(MAX_ANSWER), ..Cmd::new(words).within(limit) };
    match machine.guest().run(cmd).await {
        Ok(ExecOutput { stdout, .. }) => serde_json::from_slice(&stdout).map_err(|_| other_version(machine)),
        Err(error) if is_of_another_version(&error) => Err(other_version(machine)),
        Err(error) => Err(error),
    }
}

/// Whether the program failed as none of ours does: an older one takes these arguments for a user's, and fails with an exit
/// status of its own. Higher ones are those of a program that could not be run or was killed.
fn is_of_another_version(error: &GuestError) -> bool {
    const NOT_RUN: u8 = 126;
    let GuestError::Failed { exit: Exit::Code(code), tail, .. } = error else { return false };
    let says_why = |line: &String| {
        line.starts_with("flotilla: ") || line.starts_with(FAILURE) && !line.contains("another version")
    };
    *code < NOT_RUN && !tail.iter().any(says_why)
}

fn other_version(machine: &dyn Machine) -> GuestError {
    GuestError::OtherVersion { node: machine.name().to_string() }
}
