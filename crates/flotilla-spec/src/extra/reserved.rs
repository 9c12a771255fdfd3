//! Options that flotilla or kubeadm sets itself: another value would break what they rely on.

use super::{Component, ExtraOption};

/// Reasons for the refusal: the flag to use instead, or what would break.
const POD_RANGE: &str = "flotilla allocates the pod ranges: use `--pod-subnet` and `--node-pod-prefix`";
const SERVICE_RANGE: &str = "use `--service-cluster-ip-range`";
const DOMAIN: &str = "use `--dns-domain`";
const ADDRESS: &str = "flotilla allocates the addresses of nodes";
const NAME: &str = "it is the node's name";
const ETCD: &str = "flotilla manages the members of etcd";
const FILES: &str = "kubeadm creates and renews the file";
const RUNTIME: &str = "the bundle's containerd sets it";
const JOINS: &str = "nodes could not join";
const STATIC_PODS: &str = "the control plane runs from that directory";
const PROBES: &str = "the health checks of the control plane need it";

const CONTROLLER_MANAGER: [(&str, &str); 12] = [
    ("allocate-node-cidrs", POD_RANGE),
    ("cluster-cidr", POD_RANGE),
    ("node-cidr-mask-size", POD_RANGE),
    ("node-cidr-mask-size-ipv4", POD_RANGE),
    ("service-cluster-ip-range", SERVICE_RANGE),
    ("kubeconfig", FILES),
    ("client-ca-file", FILES),
    ("cluster-signing-cert-file", FILES),
    ("cluster-signing-key-file", FILES),
    ("root-ca-file", FILES),
    ("service-account-private-key-file", FILES),
    ("secure-port", PROBES),
];

const API_SERVER: [(&str, &str); 17] = [
    ("advertise-address", ADDRESS),
    ("bind-address", ADDRESS),
    ("secure-port", "use `--apiserver-port`"),
    ("service-cluster-ip-range", SERVICE_RANGE),
    ("etcd-servers", ETCD),
    ("etcd-prefix", ETCD),
    ("etcd-cafile", FILES),
    ("etcd-certfile", FILES),
    ("etcd-keyfile", FILES),
    ("client-ca-file", FILES),
    ("tls-cert-file", FILES),
    ("tls-private-key-file", FILES),
    ("service-account-key-file", FILES),
    ("service-account-signing-key-file", FILES),
    ("enable-bootstrap-token-auth", JOINS),
    ("allow-privileged", "kube-proxy and the control plane are privileged pods"),
    ("anonymous-auth", PROBES),
];

const ETCD_OPTIONS: [(&str, &str); 18] = [
    ("name", ETCD),
    ("data-dir", ETCD),
    ("wal-dir", ETCD),
    ("listen-client-urls", ETCD),
    ("advertise-client-urls", ETCD),
    ("listen-peer-urls", ETCD),
    ("initial-advertise-peer-urls", ETCD),
    ("initial-cluster", ETCD),
    ("initial-cluster-state", ETCD),
    ("force-new-cluster", ETCD),
    ("config-file", ETCD),
    ("listen-metrics-urls", PROBES),
    ("cert-file", FILES),
    ("key-file", FILES),
    ("trusted-ca-file", FILES),
    ("peer-cert-file", FILES),
    ("peer-key-file", FILES),
    ("peer-trusted-ca-file", FILES),
];

const KUBELET: [(&str, &str); 18] = [
    ("config", "kubeadm writes the configuration: set its fields in `kubelet` of the cluster file"),
    ("kubeconfig", FILES),
    ("bootstrap-kubeconfig", FILES),
    ("cert-dir", FILES),
    ("root-dir", FILES),
    ("hostname-override", NAME),
    ("node-ip", ADDRESS),
    ("pod-cidr", POD_RANGE),
    ("cluster-domain", DOMAIN),
    ("register-node", JOINS),
    ("cgroup-driver", RUNTIME),
    ("container-runtime-endpoint", RUNTIME),
    ("image-service-endpoint", RUNTIME),
    ("pod-manifest-path", STATIC_PODS),
    // Only kubelets before v1.24 have these; newer ones would not start.
    ("cni-bin-dir", RUNTIME),
    ("cni-conf-dir", RUNTIME),
    ("network-plugin", RUNTIME),
    ("container-runtime", RUNTIME),
];

const SCHEDULER: [(&str, &str); 2] = [("kubeconfig", FILES), ("secure-port", PROBES)];

const KUBE_PROXY: [(&str, &str); 5] = [
    ("apiVersion", "it is not a setting"),
    ("kind", "it is not a setting"),
    ("clusterCIDR", POD_RANGE),
    ("clientConnection.kubeconfig", FILES),
    ("hostnameOverride", NAME),
];

/// The same settings as fields of a node's `kubelet`.
const KUBELET_FIELDS: [(&str, &str); 7] = [
    ("podCIDR", POD_RANGE),
    ("clusterDomain", DOMAIN),
    ("registerNode", JOINS),
    ("cgroupDriver", RUNTIME),
    ("containerRuntimeEndpoint", RUNTIME),
    ("imageServiceEndpoint", RUNTIME),
    ("staticPodPath", STATIC_PODS),
];

/// Values that equal flotilla's own and are accepted.
const FINE: [(Component, &str, &str); 4] = [
    (Component::ControllerManager, "allocate-node-cidrs", "false"),
    (Component::ApiServer, "enable-bootstrap-token-auth", "true"),
    (Component::ApiServer, "allow-privileged", "true"),
    (Component::ApiServer, "anonymous-auth", "true"),
];

impl ExtraOption {
    /// Why the option cannot be set; none if it can.
    pub(crate) fn conflict(&self) -> Option<&'static str> {
        // Kubernetes accepts `_` and `-`.
        let key = self.key.replace('_', "-");
        let reserved: &[(&str, &str)] = match self.component {
            Component::Kubeadm => &[],
            Component::Kubelet => &KUBELET,
            Component::ApiServer => &API_SERVER,
            Component::ControllerManager => &CONTROLLER_MANAGER,
            Component::Scheduler => &SCHEDULER,
            Component::Etcd => &ETCD_OPTIONS,
            Component::KubeProxy => &KUBE_PROXY,
        };
        let is_fine = FINE.contains(&(self.component, key.as_str(), self.value.as_str()));
        found(reserved, &key).filter(|_| !is_fine)
    }
}

/// Why a field of the kubelet configuration cannot be set for a node; none if it can.
pub(crate) fn kubelet_field(name: &str) -> Option<&'static str> {
    found(&KUBELET_FIELDS, name)
}

fn found(reserved: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    reserved.iter().find(|(name, _)| *name == key).map(|(_, why)| *why)
}
