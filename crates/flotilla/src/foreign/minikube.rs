//! What people type who know minikube, as far as flotilla does not accept it.

use super::{Row, row};

const LOAD: &[&str] = &["docker save my-app:1 | flotilla ssh -- ctr -n k8s.io images import -"];
const EACH_NODE: &str = "import the image in each node that runs it (`-n m02`)";
const NODE_PORTS: &str = "the host reaches NodePorts of every node";
const NO_ADDONS: &str = "an add-on is a manifest that you apply";
const NO_SETTINGS: &str = "settings are flags of `start`, or keys of a cluster file";
const NO_CONFIG: &str =
    "registries cannot be configured yet; import the image in each node that runs it (`-n m02`)";
const PURGED: &str = "`delete` leaves nothing of a cluster behind; bundles are removed apart";

pub(super) const ROWS: &[Row] = &[
    row("start <demo>", "the name of a cluster is a flag", &["flotilla start -p demo"]),
    row("start --addons <ingress>", NO_ADDONS, &["flotilla kubectl -- apply -f ingress.yaml"]),
    row("start --mount-string <~/data:/data>", "", &["flotilla start --mount /home/me/data:/data"]),
    row(
        "start --mount --mount-string <~/data:/data>",
        "`--mount` itself has the directories",
        &["flotilla start --mount /home/me/data:/data"],
    ),
    row("start --gpus/-g <all>", "it does not give GPUs to nodes yet; leave the flag out", &[]),
    row(
        "start --static-ip <192.168.200.200>",
        "it gives each node a fixed address of the cluster's subnet",
        &["flotilla start --subnet 192.168.200.0/24"],
    ),
    row(
        "start --network <demo-net>",
        "each cluster has a network of its own",
        &["flotilla start --subnet 10.77.0.0/24"],
    ),
    row(
        "start --listen-address <0.0.0.0>",
        "each published port has its own address",
        &["flotilla start --port 0.0.0.0:8080:30080"],
    ),
    row(
        "start --extra-disks <1>",
        "nodes have no disks of their own; mount a directory of the host",
        &["flotilla start --mount /srv/data:/data"],
    ),
    row("start --insecure-registry <10.0.0.0/24>", NO_CONFIG, LOAD),
    row("start --registry-mirror <mirror>", NO_CONFIG, LOAD),
    row(
        "start --base-image <image>",
        "nodes are created from bundles",
        &["flotilla start --kubernetes-version v1.36.4"],
    ),
    row("start --no-kubernetes", "every node runs Kubernetes", &["flotilla start"]),
    row(
        "start --download-only",
        "what a cluster needs is a bundle, which is built before",
        &["flotilla bundle build"],
    ),
    row(
        "start --image-repository <mirror>",
        "the images of Kubernetes are in the bundle of the nodes",
        &["flotilla start"],
    ),
    row(
        "start --cert-expiration <26280h>",
        "certificates are valid for ten years, and `start` renews them",
        &["flotilla start"],
    ),
    row("start --trace <gcp>", "it sends no traces; `-v` prints what it does", &["flotilla start -v 4"]),
    row(
        "status --watch/-w",
        "`status` shows one moment; kubectl watches nodes",
        &["flotilla kubectl -- get nodes --watch"],
    ),
    row(
        "version --components",
        "the programs of a node are in its bundle",
        &["flotilla bundle list", "flotilla bundle show v1.37.1"],
    ),
    row(
        "dashboard",
        "your kubeconfig works with any dashboard; this shows what runs",
        &["flotilla kubectl -- get all -A"],
    ),
    row("addons", NO_ADDONS, &["flotilla kubectl -- apply -f ingress.yaml"]),
    row("addons list", "it installs no add-ons; this shows what runs", &["flotilla kubectl -- get all -A"]),
    row("addons enable", NO_ADDONS, &["flotilla kubectl -- apply -f ingress.yaml"]),
    row("addons disable", NO_ADDONS, &["flotilla kubectl -- delete -f ingress.yaml"]),
    row("service", NODE_PORTS, &["flotilla kubectl -- get service web", "curl http://$(flotilla ip):30080"]),
    row(
        "service <web>",
        NODE_PORTS,
        &["flotilla kubectl -- get service web", "curl http://$(flotilla ip):30080"],
    ),
    row(
        "service <web> --namespace/-n <shop>",
        NODE_PORTS,
        &["flotilla kubectl -- get service web -n shop", "curl http://$(flotilla ip):30080"],
    ),
    row("service list", "", &["flotilla kubectl -- get services -A"]),
    row(
        "tunnel",
        "it gives services no external addresses yet; the host reaches NodePorts of every node",
        &[
            "flotilla kubectl -- expose deployment web --type NodePort --port 80",
            "curl http://$(flotilla ip):30080",
        ],
    ),
    row("image", EACH_NODE, LOAD),
    row("image load", EACH_NODE, LOAD),
    row("image load <my-app:1>", EACH_NODE, LOAD),
    row(
        "image load <my-app.tar>",
        EACH_NODE,
        &["flotilla ssh -- ctr -n k8s.io images import - < my-app.tar"],
    ),
    row(
        "image build",
        "build the image on the host, then import it in each node that runs it (`-n m02`)",
        LOAD,
    ),
    row("image ls", "", &["flotilla ssh -- crictl images"]),
    row("image list", "", &["flotilla ssh -- crictl images"]),
    row("image rm", "", &["flotilla ssh -- crictl rmi my-app:1"]),
    row("image rm <my-app:1>", "", &["flotilla ssh -- crictl rmi my-app:1"]),
    row("image pull", "", &["flotilla ssh -- crictl pull my-app:1"]),
    row("image pull <my-app:1>", "", &["flotilla ssh -- crictl pull my-app:1"]),
    row("image tag", "", &["flotilla ssh -- ctr -n k8s.io images tag docker.io/library/my-app:1 my-app:2"]),
    row(
        "image save",
        "",
        &["flotilla ssh -- ctr -n k8s.io images export - docker.io/library/my-app:1 > my-app.tar"],
    ),
    row("image push", "push the image from the host", &["docker push my-app:1"]),
    row("image push <my-app:1>", "push the image from the host", &["docker push my-app:1"]),
    row("cache", "it keeps no images for later clusters", LOAD),
    row(
        "podman-env",
        "nodes have containerd; import what Podman built",
        &["podman save my-app:1 | flotilla ssh -- ctr -n k8s.io images import -"],
    ),
    row(
        "mount",
        "directories are mounted when a node starts",
        &["flotilla start --mount /srv/data:/data", "flotilla node update m02 --mount /srv/data:/data"],
    ),
    row("config", NO_SETTINGS, &["flotilla start --cpus 2 --memory 4g"]),
    row("config set", NO_SETTINGS, &["flotilla start --cpus 2 --memory 4g"]),
    row("config get", NO_SETTINGS, &["flotilla export"]),
    row("config view", NO_SETTINGS, &["flotilla export"]),
    row("config unset", NO_SETTINGS, &["flotilla start"]),
    row("config defaults", NO_SETTINGS, &["flotilla start --help"]),
    row("logs --audit", "`logs` shows the audit log before the logs of the node", &["flotilla logs"]),
    row("logs --last-start-only", "`logs` shows it before the logs of the node", &["flotilla logs"]),
    row("logs --problems", "it does not search logs", &["flotilla logs", "flotilla doctor"]),
    row("stop --schedule <30m>", "it runs nothing in the background", &["sleep 30m && flotilla stop"]),
    row("stop --cancel-scheduled", "it schedules nothing", &[]),
    row(
        "delete --purge",
        PURGED,
        &["flotilla delete", "flotilla delete --all", "flotilla bundle remove v1.37.1"],
    ),
    row("delete --purge --all", PURGED, &["flotilla delete --all", "flotilla bundle remove v1.37.1"]),
    row(
        "delete --purge --profile/-p <demo>",
        PURGED,
        &["flotilla delete -p demo", "flotilla bundle remove v1.37.1"],
    ),
    row("ssh-key", "`ssh` uses no keys", &["flotilla ssh"]),
    row("ssh-host", "`ssh` uses no keys", &["flotilla ssh"]),
    row("license", "Flotilla has the Apache License 2.0", &["flotilla version"]),
    row("options", "the help of each command lists the global options", &["flotilla start --help"]),
    row("update-check", "it asks nobody for updates", &["flotilla version"]),
];
