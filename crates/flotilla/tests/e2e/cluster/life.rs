//! Started again, stopped, started: what stays, and what `status` says of it.

use serde_json::Value;

use super::network;
use super::workloads::{NODE_PORT, lines_written};
use crate::lab::{self, Cluster, PATIENCE, wait_until};

/// Exit status and JSON of `flotilla status`.
pub(super) fn status(cluster: &Cluster) -> (i32, Value) {
    let output = cluster.run(&["status", "-o", "json"]);
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

/// All of what a user expects of a cluster when `start` has returned, without any patience.
pub(crate) fn works_at_once(cluster: &Cluster) {
    let dns = ["wait", "--for=condition=Ready", "pod", "-l", "k8s-app=kube-dns"];
    cluster.kubectl(&[&["-n", "kube-system"], &dns[..]].concat());
    let proxies = ["-n", "kube-system", "pods", "-l", "k8s-app=kube-proxy"];
    let mut proxies: Vec<_> = cluster
        .field(&proxies, "{range .items[*]}{.spec.nodeName}={.status.phase} {end}")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let names = cluster.field(&["nodes"], "{.items[*].metadata.name}");
    let mut wanted: Vec<_> = names.split_whitespace().map(|node| format!("{node}=Running")).collect();
    proxies.sort();
    wanted.sort();
    assert_eq!(proxies, wanted);
    for node in names.split_whitespace() {
        let ask = "busybox nslookup -type=a kubernetes.default.svc.cluster.local 10.96.0.10";
        let asked = cluster.run(&["ssh", "-n", node, "--", ask]);
        assert!(asked.status.success(), "{node}: {asked:?}");
    }
    // The controllers make it in every new namespace.
    cluster.kubectl(&["create", "namespace", "at-once"]);
    cluster.kubectl(&["-n", "at-once", "wait", "--for=create", "serviceaccount/default", "--timeout=10s"]);
    cluster.kubectl(&["delete", "namespace", "at-once"]);
}

pub(super) fn the_status_has_every_format(cluster: &Cluster) {
    let text = cluster.succeed(&["status"]);
    let wanted =
        "type: Control Plane\nhost: Running\nkubelet: Running\napiserver: Running\nkubeconfig: Configured";
    // minikube's lines come first.
    assert!(text.starts_with(&format!("{}\n{wanted}\nip: {}\n", cluster.name, cluster.ip())), "{text}");
    for line in ["virtual ip: ", "etcd\nmembers: 1 of 1 up\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let whole = cluster.succeed(&["status", "-o", "json", "--layout", "cluster"]);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!((&whole["Name"], &whole["StatusName"]), (&cluster.name.as_str().into(), &"OK".into()));
    assert_eq!(
        cluster.succeed(&["status", "--format", "{{.Name}} {{.APIServer}}"]).trim(),
        format!("{} Running", cluster.name)
    );
    let (code, reported) = status(cluster);
    assert_eq!((code, reported["Host"].as_str()), (0, Some("Running")), "{reported}");
}

pub(super) fn a_second_start_changes_nothing(cluster: &Cluster) {
    // The kubelet tells of etcd late: its pod is older than the node it runs on.
    let etcd = format!("pod/etcd-{}", cluster.name);
    for condition in ["create", "condition=Ready"] {
        cluster.wait_for(condition, &["-n", "kube-system", &etcd]);
    }
    // What the cluster still does by itself is not the start's doing.
    let (mut last, mut quiet) = (versions(cluster), 0);
    wait_until("nothing goes on in the cluster", PATIENCE, || {
        let before = std::mem::replace(&mut last, versions(cluster));
        quiet = if before == last { quiet + 1 } else { 0 };
        if quiet == 10 { Ok(()) } else { Err(format!("{before}\n{last}")) }
    });
    let processes = processes(cluster);
    let said = cluster.start(&[]);
    assert!(said.contains("nothing to do"), "{said}");
    assert_eq!(versions(cluster), last);
    assert_eq!(self::processes(cluster), processes);
}

/// Each thing in the cluster and which version of it there is. Nodes and leases change by themselves.
fn versions(cluster: &Cluster) -> String {
    let kinds = "pods,deployments,daemonsets,services,endpointslices,configmaps,secrets,serviceaccounts,\
                 roles,rolebindings,clusterroles,clusterrolebindings";
    let path = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}";
    cluster.field(&["-A", kinds], path)
}

/// The node's own processes, and when its first one began.
fn processes(cluster: &Cluster) -> String {
    cluster.ssh("cut -d ' ' -f 22 /proc/1/stat; pidof containerd kubelet etcd kube-apiserver kube-proxy")
}

pub(super) fn stopped_and_started_all_is_back(cluster: &Cluster) {
    let addresses = |cluster: &Cluster| {
        let services = cluster.field(&["-A", "services"], "{.items[*].spec.clusterIP}");
        let node = cluster.field(&["nodes"], "{.items[*].status.addresses}");
        let server = cluster.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
        (cluster.ip(), services, node, server)
    };
    let uids = |cluster: &Cluster| cluster.field(&["pods,nodes"], "{.items[*].metadata.uid}");
    let before = (addresses(cluster), uids(cluster));

    let said = cluster.succeed(&["stop"]);
    assert!(said.contains("stopped"), "{said}");
    let (code, reported) = status(cluster);
    assert_eq!(
        (code, reported["Host"].as_str(), reported["APIServer"].as_str()),
        (7, Some("Stopped"), Some("Stopped"))
    );
    assert_eq!(cluster.ip(), before.0.0, "the address of a stopped node is known");
    assert!(cluster.try_ssh("true").is_err());
    let written = lines_written(cluster);
    assert!(written > 0);
    assert!(cluster.succeed(&["stop"]).contains("already"));

    cluster.start(&[]);
    works_at_once(cluster);
    assert_eq!((addresses(cluster), uids(cluster)), before);
    wait_until("the pod writes on in the same file", PATIENCE, || {
        let now = lines_written(cluster);
        if now > written { Ok(()) } else { Err(format!("{now} lines, {written} before")) }
    });
    network::web_answers_at(&cluster.ip(), NODE_PORT);
    assert_eq!(status(cluster).0, 0);
}

/// Says what could be opened to write, and writes nothing: these are the real files.
const ATTACK: &str = "
image=$(find /opt/flotilla/snapshots -type f -name coredns | head -n 1)
for file in /usr/local/bin/kubectl /usr/local/sbin/flotilla-init /proc/1/exe $image; do
    [ -e $file ] || echo $file is missing
    for mount in $file /opt/flotilla/snapshots; do mount -o remount,bind,rw $mount; mount -o remount,rw $mount; done
    (: >> $file) && echo $file can be written
    touch $file && echo $file can be touched
done 2>/dev/null; true";

pub(super) fn the_bundle_is_untouched(cluster: &Cluster) {
    assert_eq!(cluster.ssh(ATTACK).trim(), "");
    lab::succeed(&lab::real_home(), &["bundle", "verify", lab::digest()]);
}
