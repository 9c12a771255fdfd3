//! Where things are in a node.

/// What kubeadm is reported, and the directory of its patches.
pub(crate) const CONFIG: &str = "/etc/flotilla/kubeadm.yaml";
/// The same for the join of a control plane, beside what it would be told as the first.
pub(crate) const JOIN_CONFIG: &str = "/etc/flotilla/kubeadm-join.yaml";
/// The same for a control plane that founds the cluster together with others.
pub(crate) const FOUNDING_CONFIG: &str = "/etc/flotilla/kubeadm-founding.yaml";
/// The same for the renewal of certificates. There while one is under way.
pub(crate) const RENEWAL_CONFIG: &str = "/etc/flotilla/kubeadm-renewal.yaml";
pub(crate) const PATCHES: &str = "/etc/flotilla/patches";

pub(crate) const CRI_SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// The administrator: has rights as soon as a binding gives them.
pub(crate) const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";
/// The administrator whom the API server obeys before there is any binding.
pub(crate) const SUPER_ADMIN_CONF: &str = "/etc/kubernetes/super-admin.conf";
/// The certificate of the cluster's authority.
pub(crate) const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";
pub(crate) const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
/// The kubelet's certificate and key, once it has taken them under its own care.
pub(crate) const KUBELET_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// The certificate that the kubelet signs for its own server.
pub(crate) const KUBELET_SERVING: &str = "/var/lib/kubelet/pki/kubelet.crt";

/// There since the API answered for the first time: from then on `kubeadm init` is not run again.
pub(crate) const INITIALISED: &str = "/var/lib/flotilla/initialised";
/// The same for all others: there since the `kubeadm join` was finished.
pub(crate) const JOINED: &str = "/var/lib/flotilla/joined";
/// There while a control plane founds its cluster together with others, until the API has answered for the first time.
/// Before that nobody can have stored anything in it: its data may be cleared away.
pub(crate) const FOUNDING: &str = "/var/lib/flotilla/founding";
/// Takes its place on all initial members once the API has answered, until one of the marks above says that the node is
/// finished. Its data is the cluster's.
pub(crate) const FOUNDED: &str = "/var/lib/flotilla/founded";
/// Where a joining node finds the API, and whom it trusts.
pub(crate) const DISCOVERY: &str = "/etc/flotilla/discovery.conf";
/// There while `pause` holds: until the node goes down at the latest, since nothing is frozen in one that has booted again.
pub(crate) const PAUSED: &str = "/run/flotilla/paused";
