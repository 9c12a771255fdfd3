//! The virtual IP in a running node: reconfigures keepalived without losing the address.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use flotilla_linux::net::{Net, NetError};
use flotilla_linux::poll;
use flotilla_node_api::{NodeConfig, NodeFile, Reply, Request, ServiceSpec, Unit, Verb, VirtualIp};
use ipnet::Ipv4Net;

use super::{ConfigureError, files, network};
use crate::ask::ask;
use crate::root::Root;

/// How long keepalived may take from its start until it has the address. On a busy host it only begins after seconds.
const LIMIT: Duration = Duration::from_secs(15);

/// What it says when it has taken the address for its own.
const IS_MASTER: &str = "Entering MASTER STATE";

/// How keepalived gets its new configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Start,
    Restart,
}

/// What has to be done; none if keepalived has its configuration, or is none of this node's business. One that the node
/// needs no more goes on until the next boot: it is alone, and keeps the address.
pub(super) fn change(root: &Root, wanted: &VirtualIp) -> Result<Option<Change>, ConfigureError> {
    let VirtualIp::Keepalived { config, .. } = wanted else { return Ok(None) };
    let was = files::read(root, ServiceSpec::KEEPALIVED_CONF)?;
    Ok(match was {
        Some(was) if was == config.as_bytes() => None,
        Some(_) => Some(Change::Restart),
        None => Some(Change::Start),
    })
}

pub(super) fn apply(root: &Root, inside: &Net, config: &NodeConfig) -> Result<(), ConfigureError> {
    let VirtualIp::Keepalived { address, config: text } = &config.virtual_ip else { return Ok(()) };
    let Some(change) = change(root, &config.virtual_ip)? else { return Ok(()) };
    let link = &config.link.name;
    let had_it = change == Change::Start && network::has_address(inside, link, *address)?;
    let log = Log::from_now_on(root.log_of(&Unit::KEEPALIVED));
    files::write(root, ServiceSpec::KEEPALIVED_CONF, &NodeFile::at_boot(text))?;
    let verb = if change == Change::Start { Verb::Start } else { Verb::Restart };
    let request = Request::Unit { verb, unit: Unit::KEEPALIVED };
    match ask(&root.control_socket(), &request).map_err(ConfigureError::Ask)? {
        Reply::Status(_) => {}
        other => return Err(ConfigureError::Keepalived(format!("PID 1 said {other:?}"))),
    }
    if had_it {
        guard(inside, link, *address, || log.says(IS_MASTER))?;
    }
    Ok(())
}

/// What keepalived says from some moment on.
struct Log {
    path: PathBuf,
    begin: usize,
}

impl Log {
    fn from_now_on(path: PathBuf) -> Self {
        let begin = fs::metadata(&path).map_or(0, |log| usize::try_from(log.len()).unwrap_or(usize::MAX));
        Self { path, begin }
    }

    fn says(&self, text: &str) -> bool {
        let log = fs::read(&self.path).unwrap_or_default();
        // A shorter log is a new one: the old one was full.
        let new = log.get(self.begin..).unwrap_or(&log);
        String::from_utf8_lossy(new).contains(text)
    }
}

/// Keepalived begins by taking its address from the link, listens for a second, and gives it back if it is alone. The node
/// that had the address so far is alone: no other control plane can have joined yet. So it need not be without the address:
/// it gets it back until it is keepalived's. Keepalived that never gets that far, as the API server is not well, is no error.
fn guard(inside: &Net, link: &str, address: Ipv4Net, is_master: impl Fn() -> bool) -> Result<(), NetError> {
    let ask = || {
        // Asked first: once it has said so, it takes the address away no more.
        let is_master = is_master();
        inside.ensure_address(link, address).map_err(Some)?;
        if is_master { Ok(()) } else { Err(None) }
    };
    match poll::until(LIMIT, ask, Option::is_some) {
        Err(Some(error)) => Err(error),
        Ok(()) | Err(None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second is what keepalived needs on an idle host. This one begins later than that.
    #[test]
    fn an_address_that_a_slow_keepalived_takes_away_is_there_until_it_is_its_own() {
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root changes addresses");
        }
        flotilla_testkit::own_network();
        let dir = tempfile::tempdir().unwrap();
        let (path, address) = (dir.path().join("keepalived.log"), "198.51.100.1/32".parse().unwrap());
        let has_it = |net: &Net| network::has_address(net, "lo", address).unwrap();
        fs::write(&path, "Entering MASTER STATE, said long ago\n").unwrap();
        let log = Log::from_now_on(path.clone());
        let inside = Net::here().unwrap();
        inside.ensure_address("lo", address).unwrap();
        std::thread::scope(|scope| {
            let keepalived = scope.spawn(|| {
                let net = Net::here().unwrap();
                let late = std::time::Instant::now() + Duration::from_millis(1_200);
                poll::until(
                    Duration::from_mins(1),
                    || if std::time::Instant::now() < late { Err(()) } else { Ok(()) },
                    |()| false,
                )
                .unwrap();
                net.remove_address("lo", address).unwrap();
                let back = || if has_it(&net) { Ok(()) } else { Err(()) };
                let is_back = poll::until(Duration::from_mins(1), back, |()| false);
                fs::write(&path, "Entering MASTER STATE, said long ago\n(api) Entering MASTER STATE\n")
                    .unwrap();
                is_back
            });
            guard(&inside, "lo", address, || log.says(IS_MASTER)).unwrap();
            keepalived.join().unwrap().expect("it is given back");
        });
        assert!(has_it(&inside));
    }
}
