//! The files of a node. They are written whole, by a rename, and have their modes whatever our umask is.
//!
//! What is in the node's directories was left by the node, and may lead anywhere: at boot, descriptors of the owner's mounts
//! are open, and `/proc` leads to them. So paths are resolved below the root alone, without magic links.

use std::io;
use std::path::Path;

use flotilla_linux::enter::Files;
use flotilla_node_api::{NodeConfig, NodeFile};

use super::ConfigureError;
use crate::root::Root;

/// The home directory of a node's login.
const HOME: &str = "/root";
/// The same in minikube's nodes: scripts know it by this name.
const MINIKUBE_HOME: &str = "/home/docker";

/// The files that have to be right while the node runs, and are not. One that cannot be read is not.
pub(super) fn differing<'a>(root: &Root, config: &'a NodeConfig) -> Result<Vec<&'a str>, ConfigureError> {
    let files = below(root)?;
    let always = config.files.iter().filter(|(_, file)| file.always);
    let differs = always.filter(|(path, file)| !files.has(path.as_ref(), file.mode, file.bytes()));
    Ok(differs.map(|(path, _)| path.as_str()).collect())
}

/// What is in a file; none if there is none.
pub(super) fn read(root: &Root, path: &str) -> Result<Option<Vec<u8>>, ConfigureError> {
    let path = Path::new(path);
    below(root)?.read(path).map_err(failed("read", path))
}

/// Writes a file, and makes the directories above it.
pub(super) fn write(root: &Root, path: &str, file: &NodeFile) -> Result<(), ConfigureError> {
    let (files, path) = (below(root)?, Path::new(path));
    // A node with a full disk can boot if they are right already.
    if files.has(path, file.mode, file.bytes()) {
        return Ok(());
    }
    files.write_at_boot(path, file.mode, file.bytes()).map_err(failed("write", path))
}

/// Removes a file, if it exists.
pub(super) fn remove(root: &Root, path: &str) -> Result<(), ConfigureError> {
    let path = Path::new(path);
    below(root)?.remove(path).map_err(failed("remove", path))
}

/// Makes minikube's home directory of logins another name of ours, unless a node has one of its own. A node with a full disk
/// boots without it.
pub(super) fn link_home(root: &Root) {
    drop(below(root).map(|files| files.link_if_free(MINIKUBE_HOME.as_ref(), HOME)));
}

fn below(root: &Root) -> Result<Files, ConfigureError> {
    let top = root.at("/".as_ref());
    Files::below(&top).map_err(failed("open", &top))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ConfigureError {
    let path = path.to_owned();
    move |source| ConfigureError::File { action, path, source }
}
