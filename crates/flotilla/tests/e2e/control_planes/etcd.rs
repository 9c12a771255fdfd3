//! etcd and the virtual IP as the nodes themselves know them, without Flotilla's commands.

use serde_json::Value;

use crate::lab::{Cluster, PATIENCE, wait_until};
use crate::nodes::fleet;

/// etcd's own client in a control plane, as an administrator.
const ETCDCTL: &str = "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt \
                       --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
                       --key=/etc/kubernetes/pki/etcd/healthcheck-client.key";

/// Waits until exactly these control planes are voting members, and all of them are healthy.
#[track_caller]
pub(super) fn assert_members(cluster: &Cluster, nodes: &[&str]) {
    let mut wanted: Vec<_> = nodes.iter().map(|node| (*node).to_owned()).collect();
    wanted.sort();
    wait_until(&format!("the members of etcd are {wanted:?}"), PATIENCE, || {
        let members = voters(cluster, nodes[0])?;
        if members == wanted { Ok(()) } else { Err(format!("{members:?}")) }
    });
    wait_until("every member of etcd is well", PATIENCE, || {
        etcdctl(cluster, nodes[0], "endpoint health --cluster").map(drop)
    });
}

/// The names of the members, sorted, as the member in this control plane knows them. A member that has no vote yet, or
/// was never started, is an error.
pub(super) fn voters(cluster: &Cluster, node: &str) -> Result<Vec<String>, String> {
    let list: Value = serde_json::from_str(&etcdctl(cluster, node, "member list -w json")?)
        .map_err(|error| error.to_string())?;
    let members = list["members"].as_array().ok_or("no members")?;
    if members.iter().any(|member| member["isLearner"] == true || !member["name"].is_string()) {
        return Err(list.to_string());
    }
    let mut names: Vec<_> =
        members.iter().map(|member| member["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    Ok(names)
}

fn etcdctl(cluster: &Cluster, node: &str, what: &str) -> Result<String, String> {
    let line = format!("{ETCDCTL} {what} 2>&1");
    let output = cluster.run(&["ssh", "-n", node, "--", &line]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// The virtual IP, as the kubeconfig has it.
pub(super) fn virtual_ip(cluster: &Cluster) -> String {
    let server = cluster.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    server.trim_start_matches("https://").split(':').next().unwrap().to_owned()
}

/// The control plane that has the virtual IP, once exactly one of these has it.
#[track_caller]
pub(super) fn holder(cluster: &Cluster, nodes: &[&str]) -> String {
    let address = format!(" {}/", virtual_ip(cluster));
    wait_until("one control plane has the virtual IP", PATIENCE, || {
        let has_it = |node: &&&str| fleet::ssh(cluster, node, "ip -4 -o address").contains(&address);
        let holders: Vec<_> = nodes.iter().filter(has_it).collect();
        if let [holder] = holders[..] { Ok((*holder).to_owned()) } else { Err(format!("{holders:?}")) }
    })
}
