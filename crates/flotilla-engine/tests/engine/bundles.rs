//! Nodes that are made from another bundle than their cluster's, which they have their images from.

use flotilla_core::{Cluster, Explain};
use flotilla_spec::NodeName;

use crate::world::{World, with_worker};

/// A cluster of this bundle, whose worker is made from another one.
fn mixed(bundle: &str) -> Cluster {
    let mut cluster = with_worker();
    bundle.clone_into(&mut cluster.allocations.bundle);
    cluster.allocations.bundles.insert(worker(), "sha256-of-v1.36.4".to_owned());
    cluster
}

fn worker() -> NodeName {
    "demo-m02".parse().unwrap()
}

#[tokio::test]
async fn pods_of_such_a_node_start_with_the_sandbox_image_of_the_cluster_s_bundle() {
    let world = World::running_of(mixed("sha256-of-v1.37.1")).await;
    let sandbox = |node: &NodeName| {
        let config = world.driver.machine(world.name(), node).config().unwrap();
        let text = String::from_utf8_lossy(config.files["/etc/containerd/conf.d/node.toml"].bytes());
        text.lines().find_map(|line| line.strip_prefix("sandbox = ").map(str::to_owned))
    };
    assert_eq!(sandbox(&worker()).as_deref(), Some("\"registry.example/pause:of-v1.37.1\""));
    assert_eq!(sandbox(&"demo".parse().unwrap()), None, "its own bundle names it");
}

#[tokio::test]
async fn a_cluster_whose_bundle_is_gone_says_so() {
    let error = World::of(mixed("sha256-of-v1.0.0")).start().await.unwrap_err();
    assert_eq!((error.code().name, error.code().exit_status), ("BUNDLE_NOT_FOUND", 15));
}
