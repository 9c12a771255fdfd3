//! Who gets in, and who can read what.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::lab::{self, Cluster};

pub(super) fn anonymous_requests_are_refused(cluster: &Cluster) {
    let code = |url: &str| cluster.ssh(&format!("curl -sk -o /dev/null -w '%{{http_code}}' {url}"));
    let ip = cluster.ip();
    assert_eq!(code(&format!("https://{ip}:6443/api/v1/namespaces")), "403");
    assert_eq!(code(&format!("https://{ip}:10250/pods")), "401");
    assert!(
        cluster.try_ssh(&format!("curl -sk https://{ip}:2379/health")).is_err(),
        "etcd wants a certificate"
    );
    let unsafe_port = format!("curl -s http://{ip}:10255/pods");
    assert!(cluster.try_ssh(&unsafe_port).is_err(), "the kubelet's port without any check is open");
}

pub(super) fn no_service_account_is_an_admin(cluster: &Cluster) {
    let bindings = cluster.get(&["-A", "clusterrolebindings,rolebindings"]);
    let admins = bindings["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|binding| binding["roleRef"]["name"] == "cluster-admin");
    let subjects: Vec<_> = admins.flat_map(|binding| binding["subjects"].as_array().unwrap()).collect();
    assert!(!subjects.is_empty());
    for subject in subjects {
        assert_eq!(subject["kind"], "Group", "{subject}");
        assert!(
            ["system:masters", "kubeadm:cluster-admins"].contains(&subject["name"].as_str().unwrap()),
            "{subject}"
        );
    }
}

pub(super) fn no_bootstrap_token_is_left(cluster: &Cluster) {
    let of_kind = "--field-selector=type=bootstrap.kubernetes.io/token";
    assert_eq!(cluster.field(&["-A", "secrets", of_kind], "{.items[*].metadata.name}"), "");
}

pub(super) fn secrets_are_the_owners_alone(cluster: &Cluster) {
    let open = cluster.ssh("find /etc/kubernetes /var/lib/kubelet/pki \\( -name '*.key' -o -name '*.conf' -o -name '*.pem' \\) -type f -perm /077");
    assert_eq!(open, "", "others can read these in the node");
    let state = cluster.state();
    for (path, wanted) in [
        (lab::real_home(), 0o700),
        (state.join("kubeconfig"), 0o600),
        (state, 0o700),
        (cluster.kubeconfig(), 0o600),
    ] {
        assert_eq!(format!("{:o}", mode(&path)), format!("{wanted:o}"), "{}", path.display());
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
