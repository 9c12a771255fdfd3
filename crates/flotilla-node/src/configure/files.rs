//! The files of a node. They are written whole, by a rename, and read by everybody, whatever our umask is.
//!
//! What is in the node's directories was left by the node, and may lead anywhere: at boot, descriptors of the owner's mounts
//! are open, and `/proc` leads to them. So paths are resolved below the root alone, without magic links.

use std::io;
use std::path::Path;

use flotilla_linux::enter::Files;
use flotilla_node_api::NodeConfig;

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
    let is_right =
        |path: &str, text: &str| read_below(&files, path.as_ref()).as_deref() == Some(text.as_bytes());
    let differs = always.filter(|(path, file)| !is_right(path, &file.text));
    Ok(differs.map(|(path, _)| path.as_str()).collect())
}

/// What is in a file; none if there is none.
pub(super) fn read(root: &Root, path: &Path) -> Result<Option<Vec<u8>>, ConfigureError> {
    below(root)?.read(path).map_err(failed("read", path))
}

/// Writes a file, and makes the directories above it.
pub(super) fn write(root: &Root, path: &Path, text: &str) -> Result<(), ConfigureError> {
    let files = below(root)?;
    // A node with a full disk can boot if they are right already.
    if files.has(path, 0o644, text.as_bytes()) {
        return Ok(());
    }
    files.write_public(path, text.as_bytes()).map_err(failed("write", path))
}

/// Removes a file, if it exists.
pub(super) fn remove(root: &Root, path: &Path) -> Result<(), ConfigureError> {
    below(root)?.remove(path).map_err(failed("remove", path))
}

/// Makes minikube's home directory of logins another name of ours, unless a node has one of its own. A node with a full disk
/// boots without it.
pub(super) fn link_home(root: &Root) {
    drop(below(root).map(|files| files.link_if_free(MINIKUBE_HOME.as_ref(), HOME)));
}

fn read_below(files: &Files, path: &Path) -> Option<Vec<u8>> {
    files.read(path).ok().flatten()
}

fn below(root: &Root) -> Result<Files, ConfigureError> {
    let top = root.at("/".as_ref());
    Files::below(&top).map_err(failed("open", &top))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ConfigureError {
    let path = path.to_owned();
    move |source| ConfigureError::File { action, path, source }
}
