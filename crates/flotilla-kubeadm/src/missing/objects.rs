//! The objects in the API that make a cluster, by the kubeadm phase that creates them.
//!
//! What joins need is looked at object by object: a single one that somebody has deleted lets every later join fail. Of
//! kube-proxy and cluster DNS, which a user may replace on purpose, only what is left half-deleted counts as missing:
//! without its daemon set or its deployment, the rest stays as it is.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{Api, Client};

use crate::api::{SYSTEM, all_exist, exists};

const PUBLIC: &str = "kube-public";

/// A role and its binding have one name.
const READ_KUBEADM_CONFIG: &str = "kubeadm:nodes-kubeadm-config";
const READ_KUBELET_CONFIG: &str = "kubeadm:kubelet-config";
const READ_CLUSTER_INFO: &str = "kubeadm:bootstrap-signer-clusterinfo";
const GET_NODES: &str = "kubeadm:get-nodes";

/// What lets a node with a bootstrap token become one with a certificate.
const BOOTSTRAP: [&str; 4] = [
    "kubeadm:kubelet-bootstrap",
    "kubeadm:node-autoapprove-bootstrap",
    "kubeadm:node-autoapprove-certificate-rotation",
    GET_NODES,
];

/// kubeadm's own settings: `kubeadm join` begins with them.
pub(super) async fn has_kubeadm_settings(client: &Client) -> Result<bool, kube::Error> {
    has_settings(client, SYSTEM, "kubeadm-config", READ_KUBEADM_CONFIG).await
}

/// The kubelets' settings: every node that joins downloads them.
pub(super) async fn has_kubelet_settings(client: &Client) -> Result<bool, kube::Error> {
    has_settings(client, SYSTEM, "kubelet-config", READ_KUBELET_CONFIG).await
}

/// What bootstrap tokens need.
pub(super) async fn has_tokens(client: &Client) -> Result<bool, kube::Error> {
    Ok(has_settings(client, PUBLIC, "cluster-info", READ_CLUSTER_INFO).await?
        && all_exist(&Api::<ClusterRoleBinding>::all(client.clone()), &BOOTSTRAP).await?
        && exists(&Api::<ClusterRole>::all(client.clone()), GET_NODES).await?)
}

/// Settings, and who may read it. The binding is made last: first looked at, it saves the other questions.
async fn has_settings(client: &Client, namespace: &str, map: &str, role: &str) -> Result<bool, kube::Error> {
    Ok(exists(&Api::<RoleBinding>::namespaced(client.clone(), namespace), role).await?
        && exists(&Api::<Role>::namespaced(client.clone(), namespace), role).await?
        && exists(&Api::<ConfigMap>::namespaced(client.clone(), namespace), map).await?)
}

pub(super) async fn has_kube_proxy(client: &Client) -> Result<bool, kube::Error> {
    const NAME: &str = "kube-proxy";
    if !exists(&Api::<RoleBinding>::namespaced(client.clone(), SYSTEM), NAME).await? {
        return Ok(false);
    }
    if !exists(&Api::<DaemonSet>::namespaced(client.clone(), SYSTEM), NAME).await? {
        return Ok(true);
    }
    Ok(exists(&Api::<ConfigMap>::namespaced(client.clone(), SYSTEM), NAME).await?
        && exists(&Api::<Role>::namespaced(client.clone(), SYSTEM), NAME).await?
        && exists(&Api::<ServiceAccount>::namespaced(client.clone(), SYSTEM), NAME).await?
        && exists(&Api::<ClusterRoleBinding>::all(client.clone()), "kubeadm:node-proxier").await?)
}

/// The Corefile itself is looked at elsewhere: the host's names have to be in it.
pub(super) async fn has_dns(client: &Client) -> Result<bool, kube::Error> {
    const NAME: &str = "coredns";
    const ROLE: &str = "system:coredns";
    if !exists(&Api::<Service>::namespaced(client.clone(), SYSTEM), "kube-dns").await? {
        return Ok(false);
    }
    if !exists(&Api::<Deployment>::namespaced(client.clone(), SYSTEM), NAME).await? {
        return Ok(true);
    }
    Ok(exists(&Api::<ConfigMap>::namespaced(client.clone(), SYSTEM), NAME).await?
        && exists(&Api::<ServiceAccount>::namespaced(client.clone(), SYSTEM), NAME).await?
        && exists(&Api::<ClusterRole>::all(client.clone()), ROLE).await?
        && exists(&Api::<ClusterRoleBinding>::all(client.clone()), ROLE).await?)
}

#[cfg(test)]
mod tests;
