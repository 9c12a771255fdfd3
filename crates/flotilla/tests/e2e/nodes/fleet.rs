//! What runs on the nodes, and how they are asked: a pod on each, that serves its node's name and can be called from.

use std::path::PathBuf;

use flotilla_testkit::image;
use serde_json::Value;

use crate::faults::said;
use crate::lab::{self, Cluster, PATIENCE, feed, wait_until};

/// The port of every node on which some pod answers.
pub(super) const NODE_PORT: u16 = 30180;
/// The port of the pods.
pub(super) const POD_PORT: u16 = 8080;

/// Taints do not keep it away, but that of a node that is not Ready does: it is not called before the node can answer.
const PROBES: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: probe}
spec:
  selector: {matchLabels: {app: probe}}
  template:
    metadata: {labels: {app: probe}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{key: dedicated, operator: Exists}]
      containers:
      - name: probe
        image: flotilla.test/busybox:1
        imagePullPolicy: Never
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        command:
        - sh
        - -c
        - |
          echo $NODE > /tmp/index.html
          dd if=/dev/zero of=/tmp/small bs=1400 count=1
          dd if=/dev/zero of=/tmp/large bs=1024 count=60
          exec httpd -f -p 8080 -h /tmp
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: any}
spec:
  type: NodePort
  selector: {app: probe}
  ports: [{port: 80, targetPort: 8080, nodePort: 30180}]
---
apiVersion: v1
kind: Service
metadata: {name: same}
spec:
  sessionAffinity: ClientIP
  selector: {app: probe}
  ports: [{port: 80, targetPort: 8080}]
";

/// A node's probe.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) node: String,
    pub(crate) pod: String,
    pub(crate) ip: String,
}

/// Gives every node the image, and a probe that is ready.
pub(crate) fn run_on(cluster: &Cluster) {
    for node in names(cluster) {
        load_image(cluster, &node);
    }
    cluster.apply(PROBES);
    cluster.wait_for("condition=Available", &["-n", "kube-system", "deployment/coredns"]);
    probes(cluster);
}

pub(crate) fn load_image(cluster: &Cluster, node: &str) {
    let archive = image::busybox(&busybox());
    load(cluster, node, &archive).unwrap_or_else(|error| panic!("{node}: {error}"));
}

/// The bundle's, which is static.
pub(super) fn busybox() -> PathBuf {
    lab::bundle().join("rootfs/usr/bin/busybox")
}

/// Gives a node an image from its archive.
pub(super) fn load(cluster: &Cluster, node: &str, archive: &[u8]) -> Result<(), String> {
    let args = ["ssh", "-n", node, "--", "ctr -n k8s.io images import -"];
    let loaded = feed(&mut cluster.command(&args), archive);
    if loaded.status.success() { Ok(()) } else { Err(said(&loaded)) }
}

/// The probes of all nodes that the cluster lists, each ready, in the order of the nodes' names.
pub(crate) fn probes(cluster: &Cluster) -> Vec<Probe> {
    let nodes = cluster.field(&["nodes"], "{.items[*].metadata.name}");
    let mut nodes: Vec<_> = nodes.split_whitespace().collect();
    nodes.sort_unstable();
    wait_until("a probe is ready on every node", PATIENCE, || {
        let pods = cluster.get(&["pods", "-l", "app=probe"]);
        let ready = pods["items"].as_array().unwrap().iter().filter(|pod| is_ready(pod));
        let mut probes: Vec<Probe> = ready.map(probe).collect();
        probes.sort_by(|a, b| a.node.cmp(&b.node));
        if probes.iter().map(|probe| &probe.node).eq(&nodes) {
            Ok(probes)
        } else {
            Err(format!("{probes:?}"))
        }
    })
}

fn probe(pod: &Value) -> Probe {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Probe {
        node: text(&pod["spec"]["nodeName"]),
        pod: text(&pod["metadata"]["name"]),
        ip: text(&pod["status"]["podIP"]),
    }
}

/// Whether a pod is ready and is to stay.
pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True");
    ready && pod["metadata"]["deletionTimestamp"].is_null()
}

impl Probe {
    /// What a line for the shell prints in the pod.
    pub(crate) fn run(&self, cluster: &Cluster, line: &str) -> Result<String, String> {
        let answer = cluster.try_kubectl(&["exec", &self.pod, "--", "sh", "-c", line])?;
        Ok(answer.trim_end().to_owned())
    }

    /// The page there, as the pod gets it, sooner or later: rules of services take their time.
    #[track_caller]
    pub(super) fn page(&self, cluster: &Cluster, address: &str) -> String {
        wait_until(&format!("{address}, asked for on {}", self.node), PATIENCE, || {
            self.run(cluster, &format!("busybox timeout 10 wget -qO- http://{address}"))
        })
    }
}

/// The nodes as `flotilla node list` has them.
pub(crate) fn list(cluster: &Cluster) -> Vec<Value> {
    serde_json::from_str(&cluster.succeed(&["node", "list", "-o", "json"])).unwrap()
}

pub(crate) fn names(cluster: &Cluster) -> Vec<String> {
    list(cluster).iter().map(|node| node["Name"].as_str().unwrap().to_owned()).collect()
}

/// The second node, the third, …
pub(crate) fn worker(cluster: &Cluster, number: u32) -> String {
    format!("{}-m{number:02}", cluster.name)
}

/// A line for the shell of a node, which must succeed.
#[track_caller]
pub(crate) fn ssh(cluster: &Cluster, node: &str, line: &str) -> String {
    cluster.succeed(&["node", "ssh", node, "--", line]).trim_end().to_owned()
}

/// Whether the node is Ready, in the cluster's own words: `True`, `False` or `Unknown`.
pub(crate) fn readiness(cluster: &Cluster, node: &str) -> String {
    cluster.field(&["node", node], "{.status.conditions[?(@.type=='Ready')].status}")
}

/// The nodes on which the ready pods of an app are.
pub(crate) fn nodes_of(cluster: &Cluster, app: &str) -> Vec<String> {
    let pods = cluster.get(&["pods", "-l", &format!("app={app}")]);
    let ready = pods["items"].as_array().unwrap().iter().filter(|pod| is_ready(pod));
    ready.map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned()).collect()
}

/// A deployment of so many pods that do nothing and end at once; `more` are lines of their specification.
pub(crate) fn deploy(cluster: &Cluster, app: &str, replicas: u32, more: &str) {
    let image = crate::faults::pause_image();
    cluster.apply(&format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {app}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {app}}}}}
  template:
    metadata: {{labels: {{app: {app}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: main, image: '{image}'}}]
{more}"
    ));
}

pub(crate) fn undeploy(cluster: &Cluster, app: &str) {
    cluster.kubectl(&["delete", "deployment", app]);
    cluster.wait_for("delete", &["pods", "-l", &format!("app={app}")]);
}

/// Lines for [`deploy`]: only on this node.
pub(super) fn only_on(node: &str) -> String {
    format!("      nodeSelector: {{kubernetes.io/hostname: {node}}}\n")
}
