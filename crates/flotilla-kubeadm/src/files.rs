//! Where things are in a node.

/// The configuration of kubeadm, and the directory of its patches.
pub(crate) const CONFIG: &str = "/etc/flotilla/kubeadm.yaml";
/// The same for the join of a control plane.
pub(crate) const JOIN_CONFIG: &str = "/etc/flotilla/kubeadm-join.yaml";
/// The same for an initial member of several.
pub(crate) const FOUNDING_CONFIG: &str = "/etc/flotilla/kubeadm-founding.yaml";
/// The same for the renewal of certificates. Exists during a renewal.
pub(crate) const RENEWAL_CONFIG: &str = "/etc/flotilla/kubeadm-renewal.yaml";
pub(crate) const PATCHES: &str = "/etc/flotilla/patches";

pub(crate) const CRI_SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// The administrator: gets its rights from a role binding.
pub(crate) const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";
/// The administrator whose group has all rights without a role binding.
pub(crate) const SUPER_ADMIN_CONF: &str = "/etc/kubernetes/super-admin.conf";
/// The certificate of the cluster's authority.
pub(crate) const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";
pub(crate) const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
/// The kubelet's certificate and key, after the first rotation.
pub(crate) const KUBELET_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// The certificate of the kubelet's own server, self-signed, and its key.
pub(crate) const KUBELET_SERVING: &str = "/var/lib/kubelet/pki/kubelet.crt";
pub(crate) const KUBELET_SERVING_KEY: &str = "/var/lib/kubelet/pki/kubelet.key";

/// The discovery file of a joining node: API address and certificate authority.
pub(crate) const DISCOVERY: &str = "/etc/flotilla/discovery.conf";
/// Exists while the node is paused. It is removed at shutdown, because nothing is frozen after a boot.
pub(crate) const PAUSED: &str = "/run/flotilla/paused";
