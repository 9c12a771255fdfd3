//! What runs on the clusters: a web server behind a service, a pod to call it from, a pod that writes without end.

use std::fs;

use flotilla_testkit::image;

use crate::lab::{self, Cluster};

/// What the web server says.
pub(super) const GREETING: &str = "ahoy";
/// The port of the node on which it says it.
pub(super) const NODE_PORT: u16 = 30080;
/// Where the writing pod writes to, in the node.
pub(super) const COUNT: &str = "/var/lib/keeper/count";

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: flotilla.test/busybox:1
        imagePullPolicy: Never
        command: [sh, -c, 'echo ahoy > /tmp/index.html; echo serving; exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
";

const CLIENT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: client
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [sleep, '1000000']
";

const KEEPER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: keeper
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, 'while true; do echo line >> /data/count; sleep 0.2; done']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - name: data
    hostPath: {path: /var/lib/keeper, type: DirectoryOrCreate}
";

/// Fills the cluster and waits until all of it runs.
pub(super) fn run_on(cluster: &Cluster) {
    load_image(cluster);
    cluster.apply(KEEPER);
    run_web_on(cluster);
    cluster.wait_for("condition=Ready", &["pod/keeper"]);
}

/// The service alone, and the pod to call it from.
pub(super) fn run_web_on(cluster: &Cluster) {
    cluster.apply(&[WEB, CLIENT].join("---"));
    cluster.wait_for("condition=Ready", &["pod/client"]);
    cluster.wait_for("condition=Available", &["deployment/web"]);
    cluster.wait_for("condition=Available", &["-n", "kube-system", "deployment/coredns"]);
}

pub(super) fn load_image(cluster: &Cluster) {
    let archive = image::busybox(&lab::bundle().join("rootfs/usr/bin/busybox"));
    cluster.load_image(&archive);
}

/// What a command in the client's pod prints.
pub(super) fn in_client(cluster: &Cluster, line: &str) -> Result<String, String> {
    cluster.try_kubectl(&["exec", "client", "--", "sh", "-c", line])
}

/// How many lines the writing pod has written. Read from the host: the API may stand still.
pub(super) fn lines_written(cluster: &Cluster) -> usize {
    let node = cluster.state().join("nodes").join(&cluster.name);
    let file = node.join(COUNT.trim_start_matches('/'));
    fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).len() / "line\n".len()
}
