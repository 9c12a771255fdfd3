//! Who has the API's address. With one control plane it sits on it; several agree by keepalived.
//!
//! All configurations of a cluster are the same but for the priority, so nothing changes on the others when one more
//! comes. Nobody takes the address from who has it and is well.

use std::path::Path;
use std::time::Duration;

use flotilla_core::Changed;
use flotilla_core::cluster::{API_IS_COMING, API_PORT};
use flotilla_core::{Cluster, Node};
use flotilla_linux::enter::{self, Files, Request};
use flotilla_linux::net::{self, Net, NetError};
use flotilla_linux::poll;
use flotilla_linux::process::Process;
use flotilla_spec::Role;
use ipnet::Ipv4Net;

use super::Native;
use super::boot::LINK;
use super::error::{At, NativeError};

/// Below the root. PID 1 starts keepalived as soon as it is there.
pub(super) const FILE: &str = "etc/flotilla/keepalived.conf";

/// What the node's keepalived is told; none if the address is not its business.
pub(super) fn configuration(cluster: &Cluster, node: &Node) -> Option<String> {
    (is_control_plane(node) && !has_one_control_plane(cluster)).then(|| render(cluster, node.number))
}

/// Whether the API's address sits on the node, since nobody else could have it.
pub(super) fn owns_virtual_ip(cluster: &Cluster, node: &Node) -> bool {
    is_control_plane(node) && has_one_control_plane(cluster)
}

fn is_control_plane(node: &Node) -> bool {
    node.spec.role == Role::ControlPlane
}

fn has_one_control_plane(cluster: &Cluster) -> bool {
    cluster.spec.nodes.iter().filter(|node| node.role == Role::ControlPlane).count() == 1
}

/// A server that is not there is noticed at once; one that is slow or not well is asked a second time before it counts. A
/// keepalived that ends says so; of one that is gone the others hear nothing for three intervals.
fn render(cluster: &Cluster, number: u32) -> String {
    // Who is next is clear by far enough that the others hear of it before they try themselves.
    let priority = 250_u32.saturating_sub(number.saturating_mul(10)).max(1);
    let address = Ipv4Net::from(cluster.virtual_ip());
    let ask = "curl --silent --fail --insecure --max-time 2 --retry 1 --output /dev/null";
    let is_coming = format!("find {API_IS_COMING} -mmin -1 2>/dev/null | grep -q .");
    format!(
        "\
global_defs {{
    vrrp_version 3
    vrrp_garp_master_refresh 5
    script_user root
    enable_script_security
}}

vrrp_script api {{
    script \"/bin/sh -c '{ask} https://127.0.0.1:{API_PORT}/livez && rm -f {API_IS_COMING} || {is_coming}'\"
    interval 1
    timeout 8
    fall 1
    rise 1
}}

vrrp_instance api {{
    state BACKUP
    nopreempt
    interface {LINK}
    virtual_router_id 1
    priority {priority}
    advert_int 0.3
    virtual_ipaddress {{
        {address} dev {LINK}
    }}
    track_script {{
        api
    }}
}}
"
    )
}

/// Whether a node's file is what its keepalived should be told.
pub(super) fn is_told(cluster: &Cluster, node: &Node, files: &Files) -> Result<bool, NativeError> {
    let Some(text) = configuration(cluster, node) else { return Ok(true) };
    let path = Path::new("/").join(FILE);
    Ok(files.read(&path).at("read", &path)?.as_deref() == Some(text.as_bytes()))
}

impl Native {
    /// Sees that the keepalived of a running node does what it should now.
    pub(super) fn tell_keepalived(
        &self,
        cluster: &Cluster,
        node: &Node,
        init: &Process,
        inside: &Net,
    ) -> Result<Changed, NativeError> {
        let Some(text) = configuration(cluster, node) else { return Ok(Changed::No) };
        let path = Path::new("/").join(FILE);
        let files = Files::of(init).at("enter", format!("node {}", node.spec.name))?;
        let was = files.read(&path).at("read", &path)?;
        if was.as_deref() == Some(text.as_bytes()) {
            return Ok(Changed::No);
        }
        let failed = |source: NetError| NativeError::Connect { node: node.spec.name.clone(), source };
        let address = Ipv4Net::from(cluster.virtual_ip());
        let sat_on_it = was.is_none() && has_address(inside, address).map_err(failed)?;
        files.write(&path, 0o644, text.as_bytes()).at("write", &path)?;
        // A new file starts it anyway. But a PID 1 of an older flotilla knows no keepalived, and that has to be said.
        let verb = if was.is_none() { "start" } else { "restart" };
        let request = Request {
            group: self.names(cluster.name()).node_group(&node.spec.name),
            argv: ["systemctl", verb, "keepalived"].map(str::to_owned).to_vec(),
            env: Vec::new(),
            terminal: false,
            attached: false,
        };
        let told = enter::command(init, &request).cancel(&self.cancel).run_within(RESTART_LIMIT);
        told.map_err(|source| NativeError::Keepalived { node: node.spec.name.clone(), source })?;
        if sat_on_it {
            bridge_the_gap(inside, address).map_err(failed)?;
        }
        Ok(Changed::Yes)
    }
}

fn has_address(inside: &Net, address: Ipv4Net) -> Result<bool, NetError> {
    Ok(inside.addresses()?.iter().any(|has| has.link == LINK && has.address == address))
}

/// How long PID 1 may take to start or restart it: longer than it waits for its end.
const RESTART_LIMIT: Duration = Duration::from_secs(30);

/// How long after its start keepalived may still take the address away.
const GAP: Duration = Duration::from_secs(1);

/// Keepalived begins by taking its address from the link, listens for a second, and gives it back if it is alone. The one on
/// whom the address sat so far is alone: no other can have joined yet. So it need not be without it.
fn bridge_the_gap(inside: &Net, address: Ipv4Net) -> Result<(), NetError> {
    let ask = || match inside.ensure_address(LINK, address) {
        Ok(net::Changed::Yes) => Ok(()),
        Ok(net::Changed::No) => Err(None),
        Err(error) => Err(Some(error)),
    };
    match poll::until(GAP, ask, Option::is_some) {
        Err(Some(error)) => Err(error),
        // It was not taken away, or is back.
        Ok(()) | Err(None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake;

    const THREE: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane}
- {name: demo-m02, role: control-plane}
- {name: demo-m03, role: worker}
";

    #[test]
    fn with_one_control_plane_the_address_sits_on_it() {
        let cluster = fake::cluster("10.213.0.0/24");
        let node = cluster.primary().unwrap();
        assert!(owns_virtual_ip(&cluster, &node));
        assert_eq!(configuration(&cluster, &node), None);
    }

    #[test]
    fn several_control_planes_agree_and_workers_have_no_say() {
        let cluster = fake::cluster_of(THREE, "10.213.0.0/24");
        let told: Vec<_> = cluster.nodes().map(|node| configuration(&cluster, &node).is_some()).collect();
        assert_eq!(told, [true, true, false]);
        assert!(!cluster.nodes().any(|node| owns_virtual_ip(&cluster, &node)));
    }

    #[test]
    fn configurations_differ_by_priority_alone_which_is_valid_for_any_number() {
        let cluster = fake::cluster_of(THREE, "10.213.0.0/24");
        let [first, second] = [1, 2].map(|number| render(&cluster, number));
        assert_eq!(first.replace("priority 240", "priority 230"), second);
        assert!(render(&cluster, 65_000).contains("priority 1\n"));
        insta::assert_snapshot!(first, @r#"
        global_defs {
            vrrp_version 3
            vrrp_garp_master_refresh 5
            script_user root
            enable_script_security
        }

        vrrp_script api {
            script "/bin/sh -c 'curl --silent --fail --insecure --max-time 2 --retry 1 --output /dev/null https://127.0.0.1:6443/livez && rm -f /run/flotilla/api-is-coming || find /run/flotilla/api-is-coming -mmin -1 2>/dev/null | grep -q .'"
            interval 1
            timeout 8
            fall 1
            rise 1
        }

        vrrp_instance api {
            state BACKUP
            nopreempt
            interface eth0
            virtual_router_id 1
            priority 240
            advert_int 0.3
            virtual_ipaddress {
                10.213.0.254/32 dev eth0
            }
            track_script {
                api
            }
        }
        "#);
    }
}
