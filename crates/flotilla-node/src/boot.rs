//! Setup before the first service.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};

use crate::config::Config;
use crate::error::NodeError;
use crate::root::Root;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Enough for any pod. More is worse: there are programs that walk through all numbers a file could have.
const OPEN_FILES: u64 = 1 << 20;

/// A program with the environment of a node's services, which has nothing of ours.
#[expect(
    clippy::disallowed_methods,
    reason = "the children of PID 1 are its own to reap; it cannot die before them"
)]
pub(crate) fn command(program: &Path, env: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("HOME", "/root").envs(env);
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Sets what children inherit: no controlling terminal, many open files, no core dumps.
pub(crate) fn prepare_process() {
    // Fails if we lead a session already, which is what we want.
    let _ = setsid();
    if setrlimit(Resource::Nofile, both(OPEN_FILES)).is_err() {
        // To raise the hard limit may be forbidden; to use all of it is not.
        let maximum = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let _ = setrlimit(Resource::Core, both(0));
}

/// A limit that is soft and hard at once.
fn both(limit: u64) -> Rlimit {
    Rlimit { current: Some(limit), maximum: Some(limit) }
}

/// Makes the directories that are ours.
pub(crate) fn make_folders(root: &Root) -> Result<(), NodeError> {
    for path in [root.run(), root.logs()] {
        fs::create_dir_all(&path).map_err(|source| NodeError::Folder { path, source })?;
    }
    Ok(())
}

/// Loads the node's packet filter rules, if it has any.
pub(crate) fn load_packet_filter(root: &Root, config: &Config) -> Result<(), NodeError> {
    let rules = root.nft_rules();
    if !rules.exists() {
        return Ok(());
    }
    let output = command(&config.nft, &config.env).arg("-f").arg(&rules).output().map_err(|source| {
        NodeError::StartNft { program: config.nft.clone(), rules: rules.clone(), source }
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NodeError::NftRules { rules, status: output.status.to_string(), said })
}
