use std::path::Path;
use std::sync::Arc;

use flotilla_testkit::fake::{self, FakeMachine};

use super::*;
use crate::etcd::sh;

fn cluster(extra: &[&str]) -> Cluster {
    let mut cluster = fake::cluster("10.213.0.0/24");
    cluster.spec.extra_config = extra.iter().map(|option| option.parse().unwrap()).collect();
    cluster
}

fn files(cluster: &Cluster) -> Vec<String> {
    patches(&cluster.spec).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_single_control_plane_waits_for_nobody() {
    let text: Vec<_> =
        patches(&cluster(&[]).spec).into_iter().map(|(name, text)| format!("# {name}\n{text}")).collect();
    insta::assert_snapshot!(text.join(""), @r"
    # etcd-alone+json.yaml
    - op: add
      path: /spec/containers/0/command/-
      value: --heartbeat-interval=10
    - op: add
      path: /spec/containers/0/command/-
      value: --election-timeout=100
    # kube-controller-manager-alone+json.yaml
    - op: add
      path: /spec/containers/0/command/-
      value: --leader-elect=false
    # kube-scheduler-alone+json.yaml
    - op: add
      path: /spec/containers/0/command/-
      value: --leader-elect=false
    ");
}

#[test]
fn what_a_user_has_set_stays_as_it_is() {
    let user = cluster(&["etcd.election-timeout=5000", "scheduler.leader-elect=true"]);
    assert_eq!(files(&user), ["kube-controller-manager-alone+json.yaml"]);
    let script = remove(&user.spec);
    assert!(!script.contains("election-timeout") && !script.contains("kube-scheduler"), "{script}");
}

#[test]
fn several_control_planes_elect_their_leaders() {
    let mut several = cluster(&[]);
    let mut other = several.spec.nodes[0].clone();
    other.name = "demo-m02".parse().unwrap();
    several.spec.nodes.push(other);
    assert_eq!(files(&several), [""; 0]);
}

const ETCD: &str = "\
spec:
  containers:
  - command:
    - etcd
    - --name=demo
    - --heartbeat-interval=10
    - --election-timeout=100
    image: etcd
";
const SCHEDULER: &str = "    - --leader-elect=true\n    - --leader-elect=false\n";

/// Runs the script in a directory that stands for the machine's root.
fn remove_in(root: &Path) {
    sh(root, &remove(&cluster(&[]).spec));
}

#[test]
fn flags_and_patches_go_and_all_else_stays() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let read = |path: &str| std::fs::read_to_string(root.path().join(path)).ok();
    put("etc/kubernetes/manifests/etcd.yaml", ETCD);
    put("etc/kubernetes/manifests/kube-scheduler.yaml", SCHEDULER);
    put("etc/flotilla/patches/etcd-alone+json.yaml", "");
    put("etc/flotilla/patches/etcd+strategic.yaml", "");
    for _ in 0..2 {
        remove_in(root.path());
        let etcd = ETCD.replace("    - --heartbeat-interval=10\n    - --election-timeout=100\n", "");
        assert_eq!(read("etc/kubernetes/manifests/etcd.yaml"), Some(etcd));
        let scheduler = "    - --leader-elect=true\n".to_owned();
        assert_eq!(read("etc/kubernetes/manifests/kube-scheduler.yaml"), Some(scheduler));
        assert_eq!(read("etc/flotilla/patches/etcd-alone+json.yaml"), None);
        assert!(read("etc/flotilla/patches/etcd+strategic.yaml").is_some());
        assert_eq!(std::fs::read_dir(root.path().join("etc/kubernetes/manifests")).unwrap().count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn another_one_joins_when_no_process_has_the_flags_any_more() {
    let script = [("pidof", Ok("--election-timeout=100")), ("pidof", Ok("--leader-elect=false"))];
    let machine = FakeMachine::new(&[], &script);
    let never = Cancelled::new(Arc::new(|| false));
    end(&cluster(&[]), &machine, &never).await.unwrap();
    let log = machine.log();
    assert_eq!(log.iter().filter(|line| line.contains("pidof")).count(), 3, "{log:#?}");
    assert!(log.last().unwrap().contains("endpoint health"), "{log:#?}");
}
