//! What people type who know kind.

use super::{Row, row};

const EACH_NODE: &str = "import the image in each node that runs it (`-n m02`)";
const LOAD: &[&str] = &["docker save my-app:1 | flotilla ssh -- ctr -n k8s.io images import -"];
const LOAD_OF_DEMO: &[&str] =
    &["docker save my-app:1 | flotilla ssh -p demo -- ctr -n k8s.io images import -"];
const ARCHIVE: &[&str] = &["flotilla ssh -- ctr -n k8s.io images import - < my-app.tar"];
const ARCHIVE_OF_DEMO: &[&str] = &["flotilla ssh -p demo -- ctr -n k8s.io images import - < my-app.tar"];

pub(super) const ROWS: &[Row] = &[
    row("create cluster", "", &["flotilla start"]),
    row("create cluster --name/-n <demo>", "", &["flotilla start -p demo"]),
    row(
        "create cluster --config <kind.yaml>",
        "it has a cluster file of its own, and prints yours as one",
        &["flotilla start -f kind.yaml"],
    ),
    row(
        "create cluster --name/-n <demo> --config <kind.yaml>",
        "the name of a cluster is in its file; it has a cluster file of its own, and prints yours as one",
        &["flotilla start -f kind.yaml"],
    ),
    row(
        "create cluster --name/-n <demo> --image <kindest/node:v1.36.4>",
        "nodes are created from a bundle of a Kubernetes version",
        &["flotilla start -p demo --kubernetes-version v1.36.4"],
    ),
    row(
        "create cluster --image <kindest/node:v1.36.4>",
        "nodes are created from a bundle of a Kubernetes version",
        &["flotilla start --kubernetes-version v1.36.4"],
    ),
    row(
        "create cluster --wait <5m>",
        "`start` waits until the cluster works",
        &["flotilla start --wait-timeout 5m"],
    ),
    row(
        "create cluster --retain",
        "a start that fails keeps its nodes, and the same command resumes it",
        &["flotilla start"],
    ),
    row(
        "create cluster --kubeconfig <demo.conf>",
        "it writes to the files in KUBECONFIG",
        &["KUBECONFIG=demo.conf flotilla start"],
    ),
    row("delete cluster", "", &["flotilla delete"]),
    row("delete cluster <demo>", "the name of a cluster is a flag", &["flotilla delete -p demo"]),
    row("delete cluster --name/-n <demo>", "", &["flotilla delete -p demo"]),
    row("delete clusters", "it deletes the clusters that you name", &["flotilla list"]),
    row("delete clusters <demo>", "the name of a cluster is a flag", &["flotilla delete -p demo"]),
    row("delete clusters --all/-A", "", &["flotilla delete --all"]),
    row("get nodes", "", &["flotilla node list"]),
    row("get nodes --name/-n <demo>", "", &["flotilla node list -p demo"]),
    row("get nodes --all-clusters/-A", "", &["flotilla list"]),
    row("get kubeconfig", "", &["flotilla kubectl -- config view --raw"]),
    row("get kubeconfig --name/-n <demo>", "", &["flotilla kubectl -p demo -- config view --raw"]),
    row("export kubeconfig", "", &["flotilla update-context"]),
    row("export kubeconfig --name/-n <demo>", "", &["flotilla update-context -p demo"]),
    row(
        "export logs",
        "the logs are files in each node",
        &["flotilla logs", "flotilla cp m02:/var/log/flotilla ./logs"],
    ),
    row(
        "export logs --name/-n <demo>",
        "the logs are files in each node",
        &["flotilla logs -p demo", "flotilla cp -p demo m02:/var/log/flotilla ./logs"],
    ),
    row("load docker-image", EACH_NODE, LOAD),
    row("load docker-image <my-app:1>", EACH_NODE, LOAD),
    row("load docker-image <my-app:1> --name/-n <demo>", EACH_NODE, LOAD_OF_DEMO),
    row("load image-archive", EACH_NODE, ARCHIVE),
    row("load image-archive <my-app.tar>", EACH_NODE, ARCHIVE),
    row("load image-archive <my-app.tar> --name/-n <demo>", EACH_NODE, ARCHIVE_OF_DEMO),
    row(
        "build node-image",
        "nodes are created from bundles",
        &["flotilla bundle build", "flotilla bundle build --kubernetes-source ~/src/kubernetes"],
    ),
];
