//! The fields of the tools' config files. docs/start/from-kind.md and from-k3d.md have them, too.

use super::Field;
use super::Tool::{self, K3d, Kind};

/// A field that the translation has.
const fn same(tool: Tool, theirs: &'static str, ours: &'static str) -> Field {
    Field { tool, theirs, ours, is_translated: true }
}

/// A field that the translation leaves out.
const fn other(tool: Tool, theirs: &'static str, ours: &'static str) -> Field {
    Field { tool, theirs, ours, is_translated: false }
}

const BUNDLES: &str = "nodes are created from bundles; choose one with `kubernetesVersion`";

/// All known fields, more specific ones first.
pub const FIELDS: &[Field] = &[
    same(Kind, "apiVersion", "`apiVersion: flotilla.dev/v1`"),
    same(Kind, "kind", "`kind: Cluster`"),
    same(Kind, "name", "`name`"),
    same(Kind, "nodes[].role", "`role` of a node"),
    same(Kind, "nodes[].labels", "`labels` of a node"),
    same(Kind, "nodes[].extraMounts[].hostPath", "`mounts` of a node: `/on/the/host:/in/the/node`"),
    same(Kind, "nodes[].extraMounts[].containerPath", "`mounts` of a node"),
    same(Kind, "nodes[].extraMounts[].readOnly", "`:ro` at the end of a mount"),
    other(Kind, "nodes[].extraMounts[].propagation", "mounts have no propagation"),
    other(Kind, "nodes[].extraMounts[].selinuxRelabel", "mounts are not relabelled"),
    same(Kind, "nodes[].extraPortMappings[].containerPort", "`ports` of a node: `8080:30080`"),
    same(Kind, "nodes[].extraPortMappings[].hostPort", "`ports` of a node; the host's port is required"),
    same(
        Kind,
        "nodes[].extraPortMappings[].listenAddress",
        "the address before a port: `0.0.0.0:8080:30080`",
    ),
    same(Kind, "nodes[].extraPortMappings[].protocol", "`/udp` behind a port"),
    other(Kind, "nodes[].image", BUNDLES),
    other(Kind, "nodes[].kubeadmConfigPatches", "`labels`, `taints`, `kubelet` and `extraConfig` of a node"),
    same(Kind, "networking.podSubnet", "`podSubnet` of `network`"),
    same(Kind, "networking.serviceSubnet", "`serviceSubnet` of `network`"),
    same(Kind, "networking.disableDefaultCNI", "`cni: none` of `network`"),
    other(Kind, "networking.ipFamily", "IPv4 only"),
    other(Kind, "networking.kubeProxyMode", "kube-proxy uses nftables"),
    other(Kind, "networking.apiServerAddress", "the API is at its virtual IP, which the host reaches"),
    same(Kind, "networking.apiServerPort", "`port` of `apiServer`, at the virtual IP of the API"),
    other(Kind, "networking.dnsSearch", "nodes use the host's name servers"),
    same(Kind, "featureGates", "`featureGates`"),
    same(Kind, "runtimeConfig", "`extraConfig`: `apiserver.runtime-config=api/beta=true`"),
    other(Kind, "kubeadmConfigPatches", "`extraConfig`: `component.key=value`"),
    other(Kind, "kubeadmConfigPatchesJSON6902", "`extraConfig`: `component.key=value`"),
    other(Kind, "containerdConfigPatches", "containerd cannot be configured"),
    same(K3d, "apiVersion", "`apiVersion: flotilla.dev/v1`"),
    same(K3d, "kind", "`kind: Cluster`"),
    same(K3d, "metadata.name", "`name`"),
    same(K3d, "servers", "nodes with `role: control-plane`"),
    same(K3d, "agents", "nodes with `role: worker`"),
    same(K3d, "subnet", "`subnet` of `network`"),
    same(K3d, "volumes[].volume", "`mounts` of a node: `/on/the/host:/in/the/node`"),
    same(K3d, "volumes[].nodeFilters", "`mounts` of those nodes"),
    same(K3d, "ports[].port", "`ports` of a node: `8080:30080`"),
    same(K3d, "ports[].nodeFilters", "`ports` of those nodes; there is no load balancer"),
    same(K3d, "options.k3s.nodeLabels[].label", "`labels` of a node"),
    same(K3d, "options.k3s.nodeLabels[].nodeFilters", "`labels` of those nodes"),
    same(K3d, "options.runtime.serversMemory", "`memory` of the control planes"),
    same(K3d, "options.runtime.agentsMemory", "`memory` of the workers"),
    other(K3d, "options.runtime.gpuRequest", "nodes have no GPUs yet"),
    other(K3d, "options.runtime.labels", "nodes are not containers"),
    other(K3d, "options.runtime.ulimits", "nodes are not containers"),
    other(
        K3d,
        "options.k3s.extraArgs",
        "`extraConfig`: `component.key=value`; Kubernetes is built by kubeadm",
    ),
    other(K3d, "options.k3d.wait", "`start` waits; see `--wait`"),
    other(K3d, "options.k3d.timeout", "`start --wait-timeout`"),
    other(K3d, "options.k3d.disableLoadbalancer", "there is no load balancer"),
    other(K3d, "options.k3d", "no counterpart"),
    other(K3d, "options.kubeconfig", "`start` makes the cluster the current context"),
    other(K3d, "image", BUNDLES),
    other(K3d, "network", "each cluster has a network of its own"),
    other(K3d, "token", "kubeadm makes the tokens"),
    same(K3d, "kubeAPI.hostPort", "`port` of `apiServer`, at the virtual IP of the API"),
    other(K3d, "kubeAPI", "the API is at its virtual IP; `apiServer` adds names to its certificate"),
    other(K3d, "env", "nodes have no variables of their own"),
    other(K3d, "files", "`mounts` of a node, or `flotilla cp`"),
    other(K3d, "hostAliases", "nodes use the host's name servers"),
    other(K3d, "registries", "import images with `flotilla ssh -- ctr -n k8s.io images import - < app.tar`"),
];
