//! Certificates that have really expired, signed by the cluster's own authority, on control planes and workers.

use jiff::{SignedDuration, Timestamp};

use super::faults::{assert_back, identities};
use super::{Writer, assert_nothing_to_do, assert_status_is_well, etcd, refs, three_running};
use crate::lab::{self, Cluster, PATIENCE};
use crate::nodes::fleet;

/// kubeadm renews what a control plane has, for a second.
const EXPIRE: &str = "sed 's/^certificateValidityPeriod: .*/certificateValidityPeriod: 1s/' /etc/flotilla/kubeadm.yaml > /tmp/short.yaml \
     && kubeadm certs renew all --config /tmp/short.yaml && rm /tmp/short.yaml";

const KUBELET: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

pub(super) fn expired_certificates_are_renewed(cluster: &Cluster) {
    let three = three_running(cluster);
    let before = identities(cluster);
    fleet::deploy(cluster, "lasting", 2, "");
    cluster.wait_for("condition=Available", &["deployment/lasting"]);
    let published = client_certificate(cluster);
    let writer = Writer::begin(cluster);
    for node in fleet::names(cluster) {
        expire_kubelet(cluster, &three[0], &node);
    }
    for node in &three {
        fleet::ssh(cluster, node, EXPIRE);
    }
    cluster.succeed(&["stop"]);
    lab::wait_until("the end of all certificates", PATIENCE, || {
        let now = Timestamp::now().to_string();
        let is_valid =
            |node: &serde_json::Value| node["CertificatesExpire"].as_str().unwrap() >= now.as_str();
        status(cluster).iter().find(|node| is_valid(node)).map_or(Ok(()), |node| Err(node.to_string()))
    });
    let doctor = String::from_utf8(cluster.run(&["doctor"]).stdout).unwrap();
    let is_warning = |line: &str| line.contains(&cluster.name) && line.contains("expired");
    assert!(doctor.lines().any(is_warning), "{doctor}");

    cluster.start(&[]);
    writer.after("certificates had expired and were renewed");
    assert_back(cluster, &before);
    etcd::assert_members(cluster, &refs(&three));
    assert_status_is_well(cluster);
    let in_nine_years = (Timestamp::now() + SignedDuration::from_hours(9 * 365 * 24)).to_string();
    for node in status(cluster) {
        let expires = node["CertificatesExpire"].as_str().unwrap();
        assert!(expires > in_nine_years.as_str(), "{node} is renewed");
    }
    let renewed = client_certificate(cluster);
    assert_ne!(renewed, published, "the person has the new certificate");
    for node in &three {
        let data = "sed -n 's/.*client-certificate-data: //p' /etc/kubernetes/admin.conf";
        assert_eq!(fleet::ssh(cluster, node, data), renewed, "{node} knows the same administrator");
    }
    assert_nothing_to_do(cluster);
    writer.end(cluster);
}

/// Gives a kubelet a certificate that lasts a second.
fn expire_kubelet(cluster: &Cluster, control_plane: &str, node: &str) {
    let sign = format!(
        "kubeadm kubeconfig user --config /etc/flotilla/kubeadm.yaml --client-name system:node:{node} --org system:nodes \
         --validity-period 1s | sed -n 's/.*client-[a-z]*-data: //p' | while read data; do echo $data | base64 -d; done"
    );
    let pem = fleet::ssh(cluster, control_plane, &sign);
    assert!(pem.contains("BEGIN CERTIFICATE") && pem.contains("PRIVATE KEY"), "{pem}");
    fleet::ssh(cluster, node, &format!("cat > $(readlink -f {KUBELET}) <<'EOF'\n{pem}\nEOF"));
}

fn status(cluster: &Cluster) -> Vec<serde_json::Value> {
    serde_json::from_slice(&cluster.run(&["status", "-o", "json"]).stdout).unwrap()
}

/// That of the person's kubeconfig, in base64.
fn client_certificate(cluster: &Cluster) -> String {
    let path =
        "jsonpath={.users[?(@.name=='NAME')].user.client-certificate-data}".replace("NAME", &cluster.name);
    cluster.kubectl(&["config", "view", "--raw", "-o", &path])
}
