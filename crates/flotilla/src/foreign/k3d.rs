//! What people type who know k3d.

use super::{Row, row};

const EACH_NODE: &str = "import the image in each node that runs it (`-n m02`)";
const LOAD: &[&str] = &["docker save my-app:1 | flotilla ssh -- ctr -n k8s.io images import -"];
const LOAD_OF_DEMO: &[&str] =
    &["docker save my-app:1 | flotilla ssh -p demo -- ctr -n k8s.io images import -"];

pub(super) const ROWS: &[Row] = &[
    row("cluster create", "", &["flotilla start"]),
    row("cluster create <demo>", "", &["flotilla start -p demo"]),
    row(
        "cluster create --agents/-a <2>",
        "`--nodes` is the number of all nodes",
        &["flotilla start --nodes 3"],
    ),
    row(
        "cluster create <demo> --agents/-a <2>",
        "`--nodes` is the number of all nodes",
        &["flotilla start -p demo --nodes 3"],
    ),
    row("cluster create --servers/-s <3>", "", &["flotilla start --control-planes 3"]),
    row("cluster create <demo> --servers/-s <3>", "", &["flotilla start -p demo --control-planes 3"]),
    row(
        "cluster create --servers/-s <3> --agents/-a <2>",
        "`--nodes` is the number of all nodes",
        &["flotilla start --control-planes 3 --nodes 5"],
    ),
    row(
        "cluster create <demo> --servers/-s <3> --agents/-a <2>",
        "`--nodes` is the number of all nodes",
        &["flotilla start -p demo --control-planes 3 --nodes 5"],
    ),
    row(
        "cluster create --config/-c <k3d.yaml>",
        "it has a cluster file of its own, and prints yours as one",
        &["flotilla start -f k3d.yaml"],
    ),
    row(
        "cluster create --image/-i <rancher/k3s:v1.36.4-k3s1>",
        "nodes are created from a bundle of a Kubernetes version",
        &["flotilla start --kubernetes-version v1.36.4"],
    ),
    row(
        "cluster create --port <8080:80@loadbalancer>",
        "it has no load balancer; publish a NodePort of the control plane",
        &["flotilla start --port 8080:30080"],
    ),
    row("cluster create --volume <~/data:/data@all>", "", &["flotilla start --mount /home/me/data:/data"]),
    row(
        "cluster create --k3s-arg <--disable=traefik@server:0>",
        "Kubernetes is built by kubeadm; its components have options of their own",
        &["flotilla start --extra-config kubelet.max-pods=50"],
    ),
    row("cluster create --subnet <10.77.0.0/24>", "", &["flotilla start --subnet 10.77.0.0/24"]),
    row(
        "cluster create --api-port <6550>",
        "the API is at the cluster's own virtual IP",
        &["flotilla start --apiserver-port 6550"],
    ),
    row("cluster create --timeout <60s>", "", &["flotilla start --wait-timeout 60s"]),
    row(
        "cluster create --registry-create <registry>",
        "it has no registry of its own; import an image in each node that runs it (`-n m02`)",
        LOAD,
    ),
    row("cluster create --no-lb", "no cluster has a load balancer", &["flotilla start"]),
    row("cluster list", "", &["flotilla list"]),
    row("cluster ls", "", &["flotilla list"]),
    row("cluster get", "", &["flotilla list"]),
    row("cluster start", "", &["flotilla start"]),
    row("cluster start <demo>", "", &["flotilla start -p demo"]),
    row("cluster stop", "", &["flotilla stop"]),
    row("cluster stop <demo>", "", &["flotilla stop -p demo"]),
    row("cluster stop --all/-a", "", &["flotilla stop --all"]),
    row("cluster delete", "", &["flotilla delete"]),
    row("cluster delete <demo>", "", &["flotilla delete -p demo"]),
    row("cluster delete --all/-a", "", &["flotilla delete --all"]),
    row(
        "cluster edit <demo>",
        "ports are published by nodes",
        &["flotilla node update -p demo demo --port 8080:30080"],
    ),
    row(
        "node create <batch> --role <agent>",
        "an agent is a worker, a server is a control plane",
        &["flotilla node add batch", "flotilla node add db --control-plane"],
    ),
    row("node create <batch> --replicas <2>", "", &["flotilla node add batch --count 2"]),
    row("node create <batch> --cluster/-c <demo>", "", &["flotilla node add batch -p demo"]),
    row("node edit", "", &["flotilla node update m02 --port 8080:30080"]),
    row("kubeconfig", "", &["flotilla kubectl -- config view --raw"]),
    row("kubeconfig get", "", &["flotilla kubectl -- config view --raw"]),
    row("kubeconfig get <demo>", "", &["flotilla kubectl -p demo -- config view --raw"]),
    row("kubeconfig merge", "", &["flotilla update-context"]),
    row("kubeconfig merge <demo>", "", &["flotilla update-context -p demo"]),
    row("kubeconfig write <demo>", "", &["flotilla kubectl -p demo -- config view --raw > demo.conf"]),
    row("image import", EACH_NODE, LOAD),
    row("image import <my-app:1>", EACH_NODE, LOAD),
    row("image import <my-app:1> --cluster/-c <demo>", EACH_NODE, LOAD_OF_DEMO),
    row(
        "image import <my-app.tar>",
        EACH_NODE,
        &["flotilla ssh -- ctr -n k8s.io images import - < my-app.tar"],
    ),
    row(
        "image import <my-app.tar> --cluster/-c <demo>",
        EACH_NODE,
        &["flotilla ssh -p demo -- ctr -n k8s.io images import - < my-app.tar"],
    ),
    row(
        "registry",
        "it has no registry of its own; import an image in each node that runs it (`-n m02`)",
        LOAD,
    ),
    row("config init", "it has a cluster file of its own", &["flotilla export > cluster.yaml"]),
];
