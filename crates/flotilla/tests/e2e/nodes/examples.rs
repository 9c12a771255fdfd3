//! Every file in `examples/` is a cluster.

use std::fs;
use std::path::Path;

use super::fleet;
use crate::lab::{self, Cluster};

pub(crate) fn every_example_boots() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // One of them has a node of that version.
    lab::older_digest();
    for file in files {
        boots(&file);
    }
}

/// Under a name that no cluster of the person's has.
#[expect(clippy::print_stdout, reason = "what is said after it is about this file")]
fn boots(example: &Path) {
    println!("---- {}", example.display());
    let text = fs::read_to_string(example).unwrap();
    let cluster = Cluster::new(lab::real_home(), "tn-example");
    let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
    let text = text.replace(&format!("\nname: {name}\n"), &format!("\nname: {}\n", cluster.name));
    let path = cluster.kubeconfig().with_file_name("cluster.yaml");
    fs::write(&path, text).unwrap();
    cluster.start(&["-f", path.to_str().unwrap()]);
    let nodes = fleet::list(&cluster);
    assert!(nodes.iter().any(|node| node["Role"] == "control-plane"), "{nodes:?}");
    for node in nodes.iter().filter(|node| node["Status"] == "Running") {
        let listed = |key: &str| node[key].as_str().unwrap();
        let name = listed("Name");
        assert_eq!(fleet::readiness(&cluster, name), "True", "{name}");
        let of_node = |path: &str| cluster.field(&["node", name], path);
        assert_eq!(of_node("{.spec.podCIDR}"), listed("PodCIDR"), "{name}");
        assert_eq!(of_node("{.status.nodeInfo.kubeletVersion}"), listed("Version"), "{name}");
        assert_eq!(of_node("{.status.capacity.cpu}"), listed("CPUs"), "{name}");
        let taints = of_node(r"{range .spec.taints[*]}{.key}={.value}:{.effect}{end}");
        assert!(taints.replace("=:", ":").contains(listed("Taints")), "{name}: {taints}");
        let labels = cluster.kubectl(&["get", "node", name, "--show-labels", "--no-headers"]);
        assert!(listed("Labels").split(',').all(|label| labels.contains(label)), "{name}: {labels}");
    }
    assert!(cluster.run(&["diff", "-f", path.to_str().unwrap()]).status.success());
}
