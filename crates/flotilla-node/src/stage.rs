//! From a fresh process to PID 1 of a node, and whatever else the binary is in a node.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use flotilla_linux::machine::{self, Channel, MachineError, life};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::NodeError;
use crate::supervisor::supervise;
use crate::systemctl::systemctl;

/// The first argument of the stage that becomes PID 1. The second is the node's name, for `ps`.
pub const STAGE_INIT: &str = "__node-init";

/// What PID 1 is told over its channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    pub machine: machine::Spec,
    pub config: Config,
}

#[derive(Debug, thiserror::Error)]
enum StageError {
    #[error("cannot talk to the host")]
    Channel(#[from] io::Error),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// Becomes what the name or the arguments (with the program's own name first) ask for: a stage of a node's boot, or
/// `systemctl`. Gives the exit status.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_stage(args: &[OsString]) -> Option<i32> {
    let name = Path::new(args.first()?).file_name()?.to_str()?;
    if name == "systemctl" {
        return Some(systemctl(&args[1..]));
    }
    if let Some(status) = machine::run_if_launcher(args) {
        return Some(status);
    }
    if args.get(1)?.to_str()? != STAGE_INIT {
        return None;
    }
    Some(match boot() {
        Ok(()) => 0,
        Err(error) => {
            machine::tell("node", &error);
            1
        }
    })
}

fn boot() -> Result<(), StageError> {
    let mut channel = Channel::inherited()?;
    let boot: Boot = channel.spec()?;
    // As long as we live, and while the host's files are in sight: no second machine may run on the same disk.
    let _held = life::hold(&boot.machine.folder)?;
    machine::enter_new_namespaces()?;
    channel.say("namespaces")?;
    machine::build(&boot.machine)?;
    channel.wait_for_go()?;
    machine::detach_input()?;
    supervise(&boot.config, move || {
        // The host may be gone by now; the node lives on all the same.
        let _ = channel.say("ready");
    })?;
    Ok(())
}
