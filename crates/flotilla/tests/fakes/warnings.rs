//! What is said beside the data.

use super::world::World;

#[test]
fn a_dry_run_only_shows_what_would_change() {
    let world = World::after(&["start --control-planes 2 --nodes 2"]);
    let update = "node update m02 --labels a=b";
    let ran = world.run(&format!("{update} --dry-run"));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran}");
    let ran = world.run(&format!("{update} --yes"));
    assert!(ran.stderr.contains("warning"), "the change itself warns: {ran}");
}
