//! Commands that are killed, that meet, and that fail for one of many nodes.

use super::fleet;
use crate::faults::{kernel, said};
use crate::lab::{self, At, Cluster, Running, kill_at};

/// The node that is added and deleted all the time.
const NODE: &str = "extra";

#[test]
#[ignore = "needs root and a bundle"]
fn killed_at_any_step_the_next_command_gets_to_its_end() {
    let cluster = Cluster::new(lab::real_home(), "tn-kill");
    cluster.start(&[]);
    for (add, delete) in [
        (At::Beginning("machine/extra"), At::Beginning("drain/extra")),
        (At::End("machine/extra"), At::End("drain/extra")),
        (At::Beginning("join/extra"), At::End("leave/extra")),
        (At::End("routes"), At::Beginning("remove/extra")),
        (At::End("join/extra"), At::End("remove/extra")),
    ] {
        assert!(kill_at(&cluster, &["node", "add", NODE], add), "the addition ended before {add:?}");
        cluster.start(&[]);
        assert_eq!(fleet::readiness(&cluster, NODE), "True", "an addition killed at {add:?}");

        let killed = kill_at(&cluster, &["node", "delete", NODE], delete);
        assert!(killed, "the deletion ended before {delete:?}");
        // What was nearly done may have been finished in the moment before the kill.
        if fleet::names(&cluster).iter().any(|name| name == NODE) {
            cluster.succeed(&["node", "delete", NODE]);
        }
        let listed = cluster.kubectl(&["get", "nodes", "-o", "name"]);
        assert_eq!(listed.trim(), format!("node/{}", cluster.name), "a deletion killed at {delete:?}");
        assert!(!cluster.state().join("nodes").join(NODE).exists());
    }

    let both = [(); 2].map(|()| Running::start(&mut cluster.command(&["node", "add"])));
    for one in both {
        let (status, last) = one.finish();
        assert_eq!(status, 0, "{last}");
    }
    let nodes = fleet::list(&cluster);
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    for field in ["Name", "IP", "PodCIDR"] {
        let mut values: Vec<_> = nodes.iter().map(|node| node[field].to_string()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 3, "{field}: {nodes:?}");
    }
    for node in fleet::names(&cluster) {
        assert_eq!(fleet::readiness(&cluster, &node), "True", "{node}");
    }
}

#[test]
#[ignore = "needs root and a bundle"]
fn a_node_that_fails_does_not_stop_the_others() {
    let cluster = Cluster::new(lab::real_home(), "tn-join");
    let (failing, sound) = (fleet::worker(&cluster, 2), fleet::worker(&cluster, 3));
    let mut start = Running::start(&mut cluster.command(&["start", "--nodes", "3"]));
    assert!(start.wait_for_end_of_step(&format!("machine/{failing}")));
    kernel::kill(kernel::init_of(&cluster, &failing));
    let (status, last) = start.finish();
    assert!(![0, 130].contains(&status), "{last}");
    assert!(last["data"]["message"].as_str().unwrap().contains(&failing), "{last}");

    for node in [&cluster.name, &sound] {
        cluster.wait_for("condition=Ready", &["node", node]);
    }
    assert!(cluster.try_kubectl(&["get", "node", &failing]).is_err());

    let again = cluster.run(&["start"]);
    assert!(again.status.success(), "{}", said(&again));
    assert!(said(&again).contains(&format!("joining node {failing}")), "{}", said(&again));
    assert!(!said(&again).contains(&format!("node {sound}")), "{}", said(&again));
    assert_eq!(fleet::readiness(&cluster, &failing), "True");
}
