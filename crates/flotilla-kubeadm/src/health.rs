//! The health of a node, for `status`.

use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{Cmd, GuestError, Machine, NodeHealth, Unresponsive};
use flotilla_spec::Role;

/// How long each question may take.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn health(cluster: &Cluster, node: &Node, machine: &dyn Machine) -> NodeHealth {
    let guest = machine.guest();
    let kubelet = Cmd::new(["systemctl", "is-active", "kubelet"]).within(LIMIT);
    if node.spec.role == Role::Worker {
        return of_kubelet(&guest.run(kubelet).await);
    }
    let address = cluster.virtual_ip().to_string();
    let holds = Cmd::new(["ip", "-4", "-oneline", "address", "show", "to", &address]).within(LIMIT);
    let (kubelet, api_server, held) =
        tokio::join!(guest.run(kubelet), guest.run(own_api_server(cluster.api_port())), guest.run(holds));
    NodeHealth {
        api_server: api_server.is_ok(),
        holds_virtual_ip: held.is_ok_and(|held| !held.text().is_empty()),
        ..of_kubelet(&kubelet)
    }
}

fn of_kubelet<T>(active: &Result<T, GuestError>) -> NodeHealth {
    let unresponsive = match active {
        Err(GuestError::Frozen { .. }) => Some(Unresponsive::Frozen),
        Err(error) => error.unresponsive().map(|_| Unresponsive::Silent),
        Ok(_) => None,
    };
    NodeHealth { kubelet: active.is_ok(), unresponsive, ..NodeHealth::default() }
}

/// Checks a control plane's own API server, like keepalived.
fn own_api_server(port: u16) -> Cmd {
    let url = format!("https://127.0.0.1:{port}/livez");
    Cmd::new(["curl", "--silent", "--fail", "--insecure", "--max-time", "2", "--output", "/dev/null", &url])
        .within(LIMIT)
}

#[cfg(test)]
mod tests {
    use flotilla_testkit::fake::{self, FakeMachine};

    use super::*;

    async fn of(role: Role, script: &[(&'static str, fake::Answer)]) -> (NodeHealth, usize) {
        let mut cluster = fake::cluster("10.213.0.0/24");
        cluster.spec.nodes[0].role = role;
        let (node, machine) = (cluster.nodes().next().unwrap(), FakeMachine::new(&[], script));
        let health = health(&cluster, &node, &machine).await;
        (health, machine.log().len())
    }

    #[tokio::test]
    async fn a_control_plane_is_asked_for_its_api_server_and_the_virtual_ip() {
        let (health, asked) = of(Role::ControlPlane, &[("ip -4", Ok("2: eth0 inet 10.213.0.254/32"))]).await;
        let well = NodeHealth { kubelet: true, api_server: true, holds_virtual_ip: true, unresponsive: None };
        assert_eq!((health, asked), (well, 3));
        let script = [("curl", Err("refused")), ("systemctl", Err("inactive"))];
        assert_eq!(of(Role::ControlPlane, &script).await.0, NodeHealth::default());
    }

    #[tokio::test]
    async fn a_worker_is_asked_for_its_kubelet_alone() {
        let (health, asked) = of(Role::Worker, &[]).await;
        assert_eq!((health, asked), (NodeHealth { kubelet: true, ..NodeHealth::default() }, 1));
    }

    #[test]
    fn a_frozen_node_is_told_from_a_silent_one() {
        let node = || "demo".to_owned();
        let frozen = GuestError::Frozen { node: node(), what: "a program".to_owned() };
        assert_eq!(of_kubelet::<()>(&Err(frozen)).unresponsive, Some(Unresponsive::Frozen));
        let silent = GuestError::TimedOut { node: node(), what: "a program".to_owned(), limit: LIMIT };
        assert_eq!(of_kubelet::<()>(&Err(silent)).unresponsive, Some(Unresponsive::Silent));
    }
}
