//! flannel, for `--cni flannel`: a small network of its own, which people know from many clusters.
//!
//! The objects are those that flannel's own installation makes, with this cluster's ranges and interface.

use flotilla_core::cluster::Cluster;
use flotilla_core::network::LINK;
use serde_json::{Value, json};

use crate::yaml;

const FLANNEL: &str = "ghcr.io/flannel-io/flannel:v0.26.7";
const PLUGIN: &str = "ghcr.io/flannel-io/flannel-cni-plugin:v1.6.2-flannel1";

const NAMESPACE: &str = "kube-flannel";
const NAME: &str = "flannel";
const SETTINGS: &str = "kube-flannel-cfg";
const DAEMON_SET: &str = "kube-flannel-ds";

/// Everything that makes flannel a cluster's pod network.
pub(crate) fn flannel_manifest(cluster: &Cluster) -> String {
    let objects = [namespace(), service_account(), role(), binding(), settings(cluster), daemon_set()];
    objects.each_ref().map(yaml::document).join("---\n")
}

fn labels() -> Value {
    json!({"app": NAME, "k8s-app": NAME, "tier": "node"})
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": labels()})
}

/// flannel changes the node's network: pods that may are allowed in no namespace but a privileged one.
fn namespace() -> Value {
    let labels = json!({"k8s-app": NAME, "pod-security.kubernetes.io/enforce": "privileged"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
}

fn service_account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME)})
}

/// A node's range is in its object, and what the others must know of a node is written there.
fn role() -> Value {
    let rule =
        |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": labels()},
        "rules": [
            rule("pods", &["get"]),
            rule("nodes", &["get", "list", "watch"]),
            rule("nodes/status", &["patch"]),
        ],
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME, "labels": labels()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    })
}

fn settings(cluster: &Cluster) -> Value {
    let cni = json!({
        "name": "cbr0",
        "cniVersion": "0.3.1",
        "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    let net = json!({"Network": cluster.allocations.pod_subnet, "Backend": {"Type": "vxlan"}});
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(SETTINGS),
        "data": {"cni-conf.json": cni.to_string(), "net-conf.json": net.to_string()},
    })
}

fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(DAEMON_SET),
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": {"labels": labels()}, "spec": pod()},
        },
    })
}

fn pod() -> Value {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let copy = |name: &str, image: &str, from: &str, to: &str, mounts: Value| {
        json!({
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["cp"],
            "args": ["-f", from, to],
            "volumeMounts": mounts,
        })
    };
    let of_the_node =
        |name: &str, path: &str, kind: &str| json!({"name": name, "hostPath": {"path": path, "type": kind}});
    let of_the_pod =
        |name: &str, field: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
    json!({
        "hostNetwork": true,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        // Nothing else makes a node Ready, so nothing keeps it off one.
        "tolerations": [{"operator": "Exists"}],
        "initContainers": [
            copy(
                "install-cni-plugin",
                PLUGIN,
                "/flannel",
                "/opt/cni/bin/flannel",
                json!([mount("cni-plugin", "/opt/cni/bin")]),
            ),
            copy(
                "install-cni",
                FLANNEL,
                "/etc/kube-flannel/cni-conf.json",
                "/etc/cni/net.d/10-flannel.conflist",
                json!([mount("cni", "/etc/cni/net.d"), mount("flannel-cfg", "/etc/kube-flannel/")]),
            ),
        ],
        "containers": [{
            "name": "kube-flannel",
            "image": FLANNEL,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/opt/bin/flanneld"],
            "args": ["--ip-masq", "--kube-subnet-mgr", format!("--iface={LINK}")],
            "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
            "securityContext": {"privileged": false, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
            "env": [
                of_the_pod("POD_NAME", "metadata.name"),
                of_the_pod("POD_NAMESPACE", "metadata.namespace"),
                {"name": "EVENT_QUEUE_DEPTH", "value": "5000"},
            ],
            "volumeMounts": [
                mount("run", "/run/flannel"),
                mount("flannel-cfg", "/etc/kube-flannel/"),
                mount("xtables-lock", "/run/xtables.lock"),
            ],
        }],
        "volumes": [
            of_the_node("run", "/run/flannel", "DirectoryOrCreate"),
            of_the_node("cni-plugin", "/opt/cni/bin", "DirectoryOrCreate"),
            of_the_node("cni", "/etc/cni/net.d", "DirectoryOrCreate"),
            {"name": "flannel-cfg", "configMap": {"name": SETTINGS}},
            of_the_node("xtables-lock", "/run/xtables.lock", "FileOrCreate"),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake;
    use k8s_openapi::api::apps::v1::DaemonSet;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
    use serde::de::DeserializeOwned;

    fn objects() -> Vec<Value> {
        serde_saphyr::from_multiple(&flannel_manifest(&fake::cluster("10.213.0.0/24"))).unwrap()
    }

    fn find<K: DeserializeOwned>(kind: &str) -> K {
        let found = objects().into_iter().find(|object| object["kind"] == kind).unwrap();
        serde_json::from_value(found).unwrap()
    }

    #[test]
    fn each_object_is_what_it_says_it_is() {
        let kinds: Vec<_> =
            objects().iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            kinds,
            ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet"]
        );
        find::<Namespace>("Namespace");
        find::<ServiceAccount>("ServiceAccount");
        find::<ClusterRole>("ClusterRole");
        find::<ClusterRoleBinding>("ClusterRoleBinding");
        let set = find::<DaemonSet>("DaemonSet").spec.unwrap();
        let selected = set.selector.match_labels.unwrap();
        let labels = set.template.metadata.unwrap().labels.unwrap();
        assert!(selected.iter().all(|(key, value)| labels[key] == *value));
        assert_eq!(set.template.spec.unwrap().init_containers.unwrap().len(), 2);
    }

    #[test]
    fn flannel_is_told_the_range_of_the_clusters_pods() {
        let data = find::<ConfigMap>("ConfigMap").data.unwrap();
        let net: Value = serde_json::from_str(&data["net-conf.json"]).unwrap();
        assert_eq!(net, json!({"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}));
        let cni: Value = serde_json::from_str(&data["cni-conf.json"]).unwrap();
        assert_eq!(cni["plugins"][0]["type"], "flannel");
    }
}
