//! Applies a [`NodeConfig`] to the node: files, link, routes, keepalived.
//!
//! At boot PID 1 applies all of it, before its services start ([`at_boot`], [`connect`]). While the node runs,
//! `flotilla-init configure` changes what may change then ([`apply`]), and `configure --check` tells what differs ([`check`]).
//! Both run inside the node: a symbolic link in it leads nowhere else.

mod files;
mod network;
mod virtual_ip;

use std::io;
use std::path::PathBuf;

use flotilla_linux::net::{Net, NetError};
use flotilla_node_api::{NodeConfig, NodeFile, OLDEST, PROTOCOL, ServiceSpec, VirtualIp, understands};

use crate::root::Root;

/// A node could not be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigureError {
    #[error(
        "this node was booted by another version of flotilla: it understands protocols {OLDEST} to {PROTOCOL}, \
         not {0}"
    )]
    Protocol(u32),
    #[error("cannot read the node's configuration")]
    Read(#[source] io::Error),
    #[error("cannot {action} {}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Network(#[from] NetError),
    #[error("cannot ask PID 1")]
    Ask(#[source] io::Error),
    #[error("cannot start keepalived: {0}")]
    Keepalived(String),
}

/// Writes all files of a node that is booting. Nobody uses them yet.
pub(crate) fn at_boot(root: &Root, config: &NodeConfig, machine_id: &str) -> Result<(), ConfigureError> {
    understand(config)?;
    let own = [("/etc/hostname", &config.hostname), ("/etc/machine-id", &machine_id.replace('-', ""))];
    for (path, text) in own {
        files::write(root, path, &NodeFile::at_boot(format!("{text}\n")))?;
    }
    for (path, file) in &config.files {
        files::write(root, path, file)?;
    }
    files::link_home(root);
    match &config.virtual_ip {
        VirtualIp::Keepalived { config, .. } => {
            files::write(root, ServiceSpec::KEEPALIVED_CONF, &NodeFile::at_boot(config))
        }
        // It was one of several control planes when it ran before.
        VirtualIp::None | VirtualIp::Assigned(_) => files::remove(root, ServiceSpec::KEEPALIVED_CONF),
    }
}

/// Brings the link of this network namespace to work, with all routes.
pub(crate) fn connect(config: &NodeConfig) -> Result<(), ConfigureError> {
    let net = Net::here()?;
    Ok(network::apply(&net, config, &network::differences(&net, config)?)?)
}

/// What differs from the configuration of a node that runs.
pub(crate) fn check(root: &Root, config: &NodeConfig) -> Result<Vec<String>, ConfigureError> {
    understand(config)?;
    let mut differs: Vec<_> = files::differing(root, config)?.into_iter().map(str::to_owned).collect();
    differs.extend(network::differences(&Net::here()?, config)?.describe());
    if virtual_ip::change(root, &config.virtual_ip)?.is_some() {
        differs.push("keepalived".to_owned());
    }
    Ok(differs)
}

/// Changes what differs in a node that runs, and says what that was.
pub(crate) fn apply(root: &Root, config: &NodeConfig) -> Result<Vec<String>, ConfigureError> {
    let differs = check(root, config)?;
    if differs.is_empty() {
        return Ok(differs);
    }
    let net = Net::here()?;
    network::apply(&net, config, &network::differences(&net, config)?)?;
    virtual_ip::apply(root, &net, config)?;
    for path in files::differing(root, config)? {
        files::write(root, path, &config.files[path])?;
    }
    Ok(differs)
}

fn understand(config: &NodeConfig) -> Result<(), ConfigureError> {
    if understands(config.protocol) { Ok(()) } else { Err(ConfigureError::Protocol(config.protocol)) }
}

#[cfg(test)]
mod tests;
