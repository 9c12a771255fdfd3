//! Commands that are killed, that meet, and that fail for one of many nodes.

use std::fs;

use super::fleet;
use crate::faults::{kernel, said};
use crate::lab::{self, At, Cluster, PATIENCE, Running, kill_at, wait_until};

/// The node that is added and deleted all the time.
const NODE: &str = "extra";

pub(crate) fn killed_at_any_step_the_next_command_gets_to_its_end() {
    let cluster = Cluster::new(lab::real_home(), "tn-kill");
    cluster.start(&[]);
    for (add, delete) in [
        (At::Beginning("machine/extra"), At::Beginning("drain/extra")),
        (At::End("routes"), At::End("drain/extra")),
        (At::Beginning("join/extra"), At::End("remove-from-api/extra")),
        (At::End("join/extra"), At::Beginning("remove/extra")),
        (At::Beginning("wait"), At::End("remove/extra")),
    ] {
        assert!(kill_at(&cluster, &["node", "add", NODE], add), "the addition ended before {add:?}");
        cluster.succeed(&["node", "add", NODE]);
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

    let two = ["node", "add", "--count", "2"];
    for at in [At::End("routes"), At::Beginning("wait")] {
        assert!(kill_at(&cluster, &two, at), "the addition of two ended before {at:?}");
    }
    cluster.succeed(&two);
    assert_eq!(fleet::names(&cluster).len(), 3, "{:?}", fleet::names(&cluster));

    let both = [(); 2].map(|()| Running::start(&mut cluster.command(&["node", "add"])));
    for one in both {
        let (status, last) = one.finish();
        assert_eq!(status, 0, "{last}");
    }
    let nodes = fleet::list(&cluster);
    assert_eq!(nodes.len(), 5, "{nodes:?}");
    for field in ["Name", "IP", "PodCIDR"] {
        let mut values: Vec<_> = nodes.iter().map(|node| node[field].to_string()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 5, "{field}: {nodes:?}");
    }
    let names = fleet::names(&cluster);
    for node in &names {
        assert_eq!(fleet::readiness(&cluster, node), "True", "{node}");
    }
    let [_, second, third, others @ ..] = &names[..] else { panic!("{names:?}") };
    // Several at once, which are not drained before they stop, and gone.
    let stopped = cluster.succeed(&["node", "stop", second, third]);
    assert!(stopped.contains(&format!("{second}, {third}")), "{stopped}");
    assert!(fleet::list(&cluster)[1..3].iter().all(|node| node["Status"] == "Stopped"));
    let all = [second, third].into_iter().chain(others).map(String::as_str);
    let delete: Vec<_> = ["node", "delete"].into_iter().chain(all).collect();
    let step = &*format!("remove-from-api/{third}").leak();
    assert!(kill_at(&cluster, &delete, At::End(step)));
    if fleet::names(&cluster).len() > 1 {
        cluster.succeed(&delete);
    }
    assert_eq!(fleet::names(&cluster), [cluster.name.as_str()]);
    let listed = cluster.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(listed.trim(), format!("node/{}", cluster.name));
}

pub(crate) fn whatever_command_is_killed_the_same_again_gets_to_its_end() {
    let cluster = Cluster::new(lab::real_home(), "tn-again");
    let [second, third] = [2, 3].map(|number| fleet::worker(&cluster, number));
    let insist = |args: &[&str], kills: &[At]| {
        for at in kills {
            assert!(kill_at(&cluster, args, *at), "{args:?} ended before {at:?}");
        }
        cluster.succeed(args);
        let running: Vec<_> =
            fleet::list(&cluster).into_iter().filter(|node| node["Status"] == "Running").collect();
        for node in running.iter().map(|node| node["Name"].as_str().unwrap()) {
            assert_eq!(fleet::readiness(&cluster, node), "True", "{node} after {args:?}");
        }
        running.len()
    };
    let kills = [At::End("machine/NAME-m03"), At::Within("join/NAME-m02", 300)];
    assert_eq!(insist(&["start", "--nodes", "3"], &kills), 3);

    let path = cluster.kubeconfig().with_file_name("cluster.yaml");
    let nodes = format!("[{{}}, {{name: {second}, labels: {{tier: two}}}}, {{name: tn-again-x}}]");
    let text =
        format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: {}\nnodes: {nodes}\n", cluster.name);
    fs::write(&path, text).unwrap();
    let kills =
        [At::Beginning("join/NAME-x"), At::End("labels/NAME-m02"), At::End("remove-from-api/NAME-m03")];
    assert_eq!(insist(&["apply", "-f", path.to_str().unwrap(), "--yes"], &kills), 3);
    assert_eq!(fleet::names(&cluster), [cluster.name.as_str(), second.as_str(), "tn-again-x"]);
    assert_eq!(cluster.field(&["node", &second], "{.metadata.labels.tier}"), "two");
    assert!(cluster.try_kubectl(&["get", "node", &third]).is_err());
    assert!(!cluster.state().join("nodes").join(&third).exists());

    let kills = [At::Beginning("stop/NAME-m02"), At::Beginning("machine/NAME-m02")];
    assert_eq!(insist(&["node", "update", &second, "--memory", "600Mi", "--yes"], &kills), 3);
    wait_until("the new size is reported", PATIENCE, || {
        let reported = cluster.field(&["node", &second], "{.status.capacity.memory}");
        if reported == "600Mi" { Ok(()) } else { Err(reported) }
    });

    assert_eq!(insist(&["node", "stop", &second], &[At::Beginning("stop/NAME-m02")]), 2);
    assert_eq!(insist(&["node", "start", &second], &[At::Beginning("machine/NAME-m02")]), 3);
    assert!(cluster.start(&[]).contains("nothing to do"));
}

/// Makes a cluster of three nodes.
pub(super) fn a_node_that_fails_does_not_stop_the_others(cluster: &Cluster) {
    let (failing, sound) = (fleet::worker(cluster, 2), fleet::worker(cluster, 3));
    let mut start = Running::start(&mut cluster.command(&["start", "--nodes", "3"]));
    assert!(start.wait_for_end_of_step(&format!("machine/{failing}")));
    kernel::kill(kernel::init_of(cluster, &failing));
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
    assert_eq!(fleet::readiness(cluster, &failing), "True");
}
