//! What a person types does not cost them what they have stored.

use super::world::World;

/// What is on the disks of the default cluster: the last revision of each etcd.
fn kept(world: &World) -> Vec<(String, u64)> {
    let revisions = world.host.driver.etcd_revisions(&"flotilla".parse().unwrap());
    revisions.into_iter().map(|(node, revision)| (node.to_string(), revision)).collect()
}

const REFUSAL: &str = "\
error[GUEST_LAST_DATA]: cannot delete flotilla: no other control plane of cluster flotilla has a copy of its data, and all objects of the API would be lost
hint: let another control plane join first: `flotilla start` starts them all, `flotilla node start flotilla-m02` one of them
hint: or delete the whole cluster with `flotilla delete`; `flotilla etcd snapshot save FILE` saves its objects
";

#[test]
fn the_last_copy_of_etcds_data_is_not_deleted_and_the_hint_helps() {
    const DELETE: &str = "node delete flotilla --force";
    const RUNNING: [&str; 2] = ["start --control-planes 2", "node stop m02"];
    const STOPPED: [&str; 3] = ["start --control-planes 2", "node stop m02", "stop"];
    for after in [&RUNNING[..], &STOPPED] {
        let world = World::after(after);
        let before = kept(&world);
        let ran = world.run(DELETE);
        assert_eq!(kept(&world), before, "all objects are lost: {ran}");
        assert_eq!((ran.code(), ran.status), ("GUEST_LAST_DATA", 81), "{ran}");
        assert_eq!(ran.stderr, REFUSAL);
        let help = world.run("start");
        assert_eq!(help.status, 0, "{help}");
        let ran = world.run(DELETE);
        assert_eq!(ran.status, 0, "{ran}");
        assert_eq!(kept(&world).len(), 1, "the other one has a copy now");
    }
}

#[test]
fn a_cluster_can_be_deleted_as_a_whole() {
    let world = World::after(&["start --control-planes 2", "node stop m02", "stop"]);
    let ran = world.run("delete");
    assert_eq!((ran.status, kept(&world)), (0, Vec::new()), "{ran}");
}
