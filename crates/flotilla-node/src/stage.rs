//! From a fresh process to PID 1 of a node, and whatever else the binary is in a node.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use flotilla_linux::machine::{self, Channel, MachineError, life};
use flotilla_node_api::NodeConfig;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::configure::{self, ConfigureError};
use crate::error::NodeError;
use crate::program;
use crate::root::Root;
use crate::sudo::sudo;
use crate::supervisor::supervise;
use crate::systemctl::systemctl;

/// The first argument of the stage that becomes PID 1. The second is the node's name, for `ps`.
pub const STAGE_INIT: &str = "__node-init";

/// What the binary is called in a node. That is also how its stages are shown on the host.
const PROGRAM: &str = "flotilla-init";

/// What PID 1 receives over its channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    pub machine: machine::Spec,
    pub config: Config,
    /// What is inside the node.
    pub node: NodeConfig,
}

#[derive(Debug, thiserror::Error)]
enum StageError {
    #[error("cannot talk to the host")]
    Channel(#[from] io::Error),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("cannot configure the node")]
    Configure(#[from] ConfigureError),
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// Becomes what the name or the arguments (with the program's own name first) ask for: a stage of a node's boot, or
/// `systemctl`, or `sudo`. Gives the exit status.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_stage(args: &[OsString]) -> Option<i32> {
    let name = Path::new(args.first()?).file_name()?.to_str()?;
    if name == "systemctl" {
        return Some(systemctl(&args[1..]));
    }
    if name == "sudo" {
        return Some(sudo(&args[1..]));
    }
    if name == PROGRAM
        && let Some(status) = program::run(&args[1..])
    {
        return Some(status);
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
    let _held = life::hold(&boot.machine.folder_at_launch())?;
    machine::enter_new_namespaces(Some(&boot.machine))?;
    channel.say("namespaces")?;
    let built = machine::build(&boot.machine)?;
    // Before the owner's mounts are attached, which may lead to the host's files.
    configure::at_boot(&Root::new("/"), &boot.node, &boot.machine.uuid)?;
    built.finish()?;
    channel.wait_for_go()?;
    configure::connect(&boot.node)?;
    machine::detach_input()?;
    let NodeConfig { virtual_ip, services, .. } = boot.node;
    let config = Config { virtual_ip: virtual_ip.address(), services, ..boot.config };
    supervise(&config, move || {
        // The host may be gone by now; the node lives on anyway.
        let _ = channel.say("ready");
    })?;
    Ok(())
}
