//! The cases, one function each.

use std::fs;

use flotilla_node_api::{FAILURE, Link, NodeConfig, NodeStatus, PROTOCOL, State, Unit, VirtualIp};
use rustix::process::{Signal, kill_process};

use crate::node::{Node, SHORT, wait_until};

const KEEPALIVED_CONF: &str = "etc/flotilla/keepalived.conf";

/// What the journal says when pods get SIGTERM.
pub(crate) const PODS_ARE_TOLD: &str = " processes of pods";

pub(crate) type Case = (&'static str, fn());

macro_rules! cases {
    ($($name:ident,)*) => { &[$((stringify!($name), $name as fn()),)*] };
}
pub(crate) use cases;

pub(crate) const ALL: &[Case] = cases![
    a_node_is_ready_at_once_and_its_kubelet_waits_for_containerd,
    a_killed_service_is_started_again,
    a_program_that_is_missing_does_not_stop_the_other,
    the_kubelet_starts_when_its_files_appear,
    the_kubelet_gets_its_flags_and_a_clean_environment,
    a_kubelet_that_ends_well_is_started_again,
    systemctl_stops_and_starts,
    systemctl_restart_gives_a_new_process,
    a_stopped_kubelet_ignores_its_files,
    a_service_that_does_not_listen_is_killed_when_stopped,
    keepalived_starts_when_its_configuration_appears_and_is_kept_running,
    systemctl_commands_keepalived,
    orphans_are_reaped,
    an_idle_node_goes_down_at_once_and_in_order,
    pods_are_told_before_containerd_and_shims_are_spared,
    a_stubborn_pod_is_killed_after_its_grace,
    a_stubborn_kubelet_does_not_keep_the_node_up,
    the_address_is_given_up_before_pods_are_told,
    the_end_of_keepalived_is_not_waited_for,
    what_is_frozen_is_thawed_before_it_is_told_to_end,
    logs_have_a_maximum_size,
    the_journal_tells_what_happened,
    packet_filter_rules_are_loaded_first,
    bad_packet_filter_rules_are_an_error,
    hangups_mean_nothing,
    the_node_says_how_it_is,
    a_configuration_of_another_protocol_is_refused,
];

/// Whether a journal says all that, in this order.
pub(crate) fn in_order(journal: &str, said: &[&str]) -> bool {
    let places: Vec<_> = said.iter().map(|words| journal.find(words)).collect();
    places.is_sorted() && places.iter().all(Option::is_some)
}

fn a_node_is_ready_at_once_and_its_kubelet_waits_for_containerd() {
    let node = Node::new().with_kubelet_files().start();
    node.wait_for("kubelet up");
    assert_eq!(node.count("ready"), 1);
    let journal = || node.read("var/log/flotilla/init.log");
    // The kubelet may speak before PID 1 has written down that it was started.
    wait_until("both are in the journal", || journal().contains("kubelet: started"));
    let (answers, started) = (journal().find("containerd answers"), journal().find("kubelet: started"));
    assert!(answers.is_some() && answers < started, "{}", journal());
}

fn a_killed_service_is_started_again() {
    let node = Node::new().with_kubelet_files().start();
    node.wait_for("kubelet up");
    kill_process(node.process("role-containerd"), Signal::KILL).unwrap();
    kill_process(node.process("bin/kubelet"), Signal::KILL).unwrap();
    wait_until("both run again", || node.count("containerd up") == 2 && node.count("kubelet up") == 2);
    assert_eq!(node.count("ready"), 1);
    assert!(node.read("var/log/flotilla/init.log").contains("(signal 9); again in 100ms"));
}

fn a_program_that_is_missing_does_not_stop_the_other() {
    let node = Node::new().with_kubelet_files();
    fs::remove_file(node.program(&Unit::KUBELET)).unwrap();
    let node = node.start();
    wait_until("it is tried again", || {
        node.read("var/log/flotilla/init.log").matches("kubelet: cannot start").count() >= 2
    });
    assert_eq!(node.systemctl("is-active kubelet"), ("activating".into(), 3));
}

fn the_kubelet_starts_when_its_files_appear() {
    let node = Node::new().start();
    node.write("var/lib/kubelet/config.yaml", "");
    assert_eq!(node.systemctl("is-active kubelet"), ("activating".into(), 3));
    assert_eq!(node.count("kubelet up"), 0);
    // Nobody looks at the files from time to time: without the event of this one it would never start.
    node.write("etc/kubernetes/bootstrap-kubelet.conf", "");
    node.wait_for("kubelet up");
}

fn the_kubelet_gets_its_flags_and_a_clean_environment() {
    let node = Node::new().with_kubelet_files();
    node.write("var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--a=b --c=d\"\n");
    node.write("etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=2\n");
    node.script(
        "kubelet",
        "tr '\\0' '\\n' < /proc/$$/environ; ulimit -c; cut -d' ' -f5 /proc/$$/stat; echo $$
        echo \"kubelet up $*\" >> $ROOT/events; sleep 60",
    );
    let node = node.start();
    node.wait_for("kubelet up");
    let up = node.events().into_iter().find(|event| event.starts_with("kubelet up")).unwrap();
    assert!(up.ends_with("/var/lib/kubelet/config.yaml --a=b --c=d --v=2"), "{up}");
    wait_until("its output is in the log", || node.read("var/log/flotilla/kubelet.log").lines().count() >= 8);
    let log = node.read("var/log/flotilla/kubelet.log");
    let (environment, rest) = log.split_at(log.rfind("\n0\n").unwrap() + 1);
    let mut names: Vec<_> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "KUBELET_EXTRA_ARGS", "KUBELET_KUBEADM_ARGS", "PATH", "ROOT"]);
    let rest: Vec<_> = rest.lines().collect();
    assert_eq!(rest[1], rest[2], "it leads a process group: {rest:?}");
}

fn a_kubelet_that_ends_well_is_started_again() {
    let node = Node::new().with_kubelet_files();
    node.script("kubelet", "echo kubelet up >> $ROOT/events");
    let node = node.start();
    wait_until("it was started three times", || node.count("kubelet up") >= 3);
}

fn systemctl_stops_and_starts() {
    let node = Node::new().with_kubelet_files().start();
    node.wait_for("kubelet up");
    assert_eq!(node.systemctl("is-active kubelet.service"), ("active".into(), 0));
    let (said, code) = node.systemctl("status kubelet --no-pager");
    assert!(said.starts_with("kubelet: active (pid ") && code == 0, "{said}");

    assert_eq!(node.systemctl("stop kubelet"), (String::new(), 0));
    assert_eq!(node.count("kubelet ends"), 1, "it is down when systemctl returns");
    assert_eq!(node.systemctl("is-active -q kubelet"), (String::new(), 3));
    assert_eq!(node.systemctl("status kubelet"), ("kubelet: inactive (stopped)".into(), 3));

    assert_eq!(node.systemctl("start kubelet"), (String::new(), 0));
    assert_eq!(node.systemctl("is-active kubelet"), ("active".into(), 0));
}

fn systemctl_restart_gives_a_new_process() {
    let node = Node::new().with_kubelet_files().start();
    node.wait_for("kubelet up");
    let before = node.process("bin/kubelet");
    assert_eq!(node.systemctl("restart kubelet containerd"), (String::new(), 0));
    assert_ne!(node.process("bin/kubelet"), before);
    wait_until("both are up", || node.count("kubelet up") == 2 && node.count("containerd up") == 2);
}

fn a_stopped_kubelet_ignores_its_files() {
    let node = Node::new().start();
    assert_eq!(node.systemctl("stop kubelet").1, 0);
    node.write("etc/kubernetes/kubelet.conf", "");
    node.write("var/lib/kubelet/config.yaml", "");
    assert_eq!(node.systemctl("is-active kubelet"), ("inactive".into(), 3));
    assert_eq!(node.systemctl("enable --now kubelet").1, 0);
    node.wait_for("kubelet up");
}

fn a_service_that_does_not_listen_is_killed_when_stopped() {
    let mut node = Node::new().with_kubelet_files();
    node.config.graces.stop = SHORT;
    node.script("kubelet", "trap '' TERM; echo kubelet up >> $ROOT/events; while :; do sleep 1; done");
    let node = node.start();
    node.wait_for("kubelet up");
    assert_eq!(node.systemctl("stop kubelet").1, 0);
    assert_eq!(node.systemctl("is-active kubelet"), ("inactive".into(), 3));
    let journal = node.journal();
    let said = ["kubelet: ending ", "kubelet: does not end, killing ", "kubelet: ended (signal 9)"];
    assert!(in_order(&journal, &said), "{journal}");
}

fn keepalived_starts_when_its_configuration_appears_and_is_kept_running() {
    let node = Node::new().start();
    assert_eq!(
        node.systemctl("status keepalived"),
        ("keepalived: activating (waits for its files)".into(), 3)
    );
    node.write(KEEPALIVED_CONF, "");
    node.wait_for("keepalived up");
    let up = node.events().into_iter().find(|event| event.starts_with("keepalived up")).unwrap();
    assert!(up.contains(&format!("--use-file /{KEEPALIVED_CONF} --pid ")), "{up}");
    node.write("run/flotilla/keepalived.pid", "1");
    kill_process(node.process("bin/keepalived"), Signal::KILL).unwrap();
    wait_until("it runs again", || node.count("keepalived up") == 2);
    assert!(!node.path("run/flotilla/keepalived.pid").exists(), "the file of the dead one is gone");
    assert!(node.path("var/log/flotilla/keepalived.log").exists());
}

fn systemctl_commands_keepalived() {
    let node = Node::new();
    node.write(KEEPALIVED_CONF, "");
    let node = node.start();
    node.wait_for("keepalived up");
    assert_eq!(node.systemctl("is-active keepalived"), ("active".into(), 0));
    node.wait_for_sleepers(1);
    assert_eq!(node.systemctl("stop keepalived"), (String::new(), 0));
    assert_eq!(node.count("keepalived ends"), 1, "it is down when systemctl returns");
    node.write(KEEPALIVED_CONF, "new");
    assert_eq!(node.systemctl("is-active keepalived"), ("inactive".into(), 3));
    assert_eq!(node.systemctl("start keepalived"), (String::new(), 0));
    wait_until("it runs again", || node.count("keepalived up") == 2);
    assert_eq!(node.systemctl("restart keepalived"), (String::new(), 0));
    wait_until("it is a new one", || node.count("keepalived up") == 3);
}

fn orphans_are_reaped() {
    let node = Node::new().with_kubelet_files();
    // Each subshell leaves a child behind that ends on its own.
    node.script(
        "kubelet",
        "for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &); done
        echo kubelet up >> $ROOT/events; sleep 60",
    );
    let node = node.start();
    node.wait_for("kubelet up");
    // A zombie that is not reaped would stay one of them for ever.
    wait_until("PID 1, containerd, kubelet and its sleep are left", || node.processes().len() == 4);
}

fn an_idle_node_goes_down_at_once_and_in_order() {
    for signal in [Signal::TERM, Signal::INT, Signal::POWER] {
        let mut node = Node::new().with_kubelet_files().start();
        node.wait_for("kubelet up");
        node.wait_for_sleepers(1);
        node.signal(signal);
        assert!(node.wait().success());
        assert!(!node.journal().contains("killing"), "all ended on SIGTERM: {}", node.journal());
        assert_eq!(node.events()[node.events().len() - 2..], ["kubelet ends", "containerd ends"]);
    }
}

fn pods_are_told_before_containerd_and_shims_are_spared() {
    let node = Node::new().with_kubelet_files();
    node.script(
        "pod",
        "trap 'sleep 0.3; echo pod ends >> $ROOT/events; exit' TERM
        sleep 60 & echo pod up >> $ROOT/events; wait",
    );
    // The kernel takes a script's name from its file: this is what a shim looks like. It outlives its pod.
    node.script(
        "containerd-shim-runc-v2",
        "trap 'echo shim was told >> $ROOT/events' TERM
        $ROOT/bin/pod & wait; read line < $ROOT/fifo",
    );
    let containerd = fs::read_to_string(node.program(&Unit::CONTAINERD)).unwrap();
    let shim = "mkfifo $ROOT/fifo; $ROOT/bin/containerd-shim-runc-v2 &\n";
    node.script("containerd", &format!("{shim}{}", containerd.trim_start_matches("#!/bin/sh\n")));
    let mut node = node.start();
    node.wait_for("pod up");
    node.wait_for("kubelet up");
    node.wait_for_sleepers(2);
    assert!(node.go_down().success());
    assert!(!node.journal().contains("killing"), "all ended on SIGTERM: {}", node.journal());
    let events = node.events();
    let from = events.iter().position(|event| event == "kubelet ends").unwrap();
    assert_eq!(events[from..], ["kubelet ends", "pod ends", "containerd ends"]);
}

fn a_stubborn_pod_is_killed_after_its_grace() {
    let mut node = Node::new();
    node.config.graces.pods = SHORT;
    let containerd = fs::read_to_string(node.program(&Unit::CONTAINERD)).unwrap();
    node.script("pod", "trap '' TERM; echo pod up >> $ROOT/events; while :; do sleep 1; done");
    node.script("containerd", &format!("$ROOT/bin/pod &\n{}", containerd.trim_start_matches("#!/bin/sh\n")));
    let mut node = node.start();
    node.wait_for("pod up");
    assert!(node.go_down().success());
    assert_eq!(node.events().last().unwrap(), "containerd ends");
    assert!(node.journal().contains("killing processes that did not exit: pod ("), "{}", node.journal());
}

fn a_stubborn_kubelet_does_not_keep_the_node_up() {
    let mut node = Node::new().with_kubelet_files();
    node.config.graces.service = SHORT;
    node.script("kubelet", "trap '' TERM; echo kubelet up >> $ROOT/events; while :; do sleep 1; done");
    let mut node = node.start();
    node.wait_for("kubelet up");
    assert!(node.go_down().success());
    let journal = node.journal();
    let said = ["kubelet: ending ", PODS_ARE_TOLD, "the node is down"];
    assert!(in_order(&journal, &said), "its pods get SIGTERM all the same: {journal}");
}

fn the_address_is_given_up_before_pods_are_told() {
    let node = Node::new().with_kubelet_files();
    node.write(KEEPALIVED_CONF, "");
    node.script(
        "pod",
        "trap 'echo pod ends >> $ROOT/events; exit' TERM\nsleep 60 & echo pod up >> $ROOT/events; wait",
    );
    let containerd = fs::read_to_string(node.program(&Unit::CONTAINERD)).unwrap();
    node.script("containerd", &format!("$ROOT/bin/pod &\n{}", containerd.trim_start_matches("#!/bin/sh\n")));
    node.script("keepalived", GIVES_UP_ADDRESS);
    let mut node = node.start();
    for up in ["pod up", "kubelet up", "keepalived up"] {
        node.wait_for(up);
    }
    node.wait_for_sleepers(3);
    assert!(node.go_down().success());
    let place = |what: &str| node.events().iter().position(|event| event == what).unwrap();
    assert!(place("address given up") < place("pod ends"), "{:?}", node.events());
}

/// A keepalived that ends when it has given up the address.
const GIVES_UP_ADDRESS: &str = "trap 'echo address given up >> $ROOT/events; exit' TERM
sleep 60 & echo keepalived up >> $ROOT/events; wait";

fn the_end_of_keepalived_is_not_waited_for() {
    let mut node = Node::new();
    node.config.graces.address = SHORT;
    node.config.graces.system = SHORT;
    node.write(KEEPALIVED_CONF, "");
    node.script(
        "keepalived",
        "mkfifo $ROOT/fifo; trap '' TERM
        echo keepalived up >> $ROOT/events; while :; do read line <> $ROOT/fifo; done",
    );
    let mut node = node.start();
    node.wait_for("keepalived up");
    assert!(node.go_down().success());
    let journal = node.journal();
    assert!(in_order(&journal, &["keepalived: ending ", PODS_ARE_TOLD, "the node is down"]), "{journal}");
    let waited_for =
        journal.find("keepalived: ended").is_some_and(|end| Some(end) < journal.find(PODS_ARE_TOLD));
    assert!(!waited_for, "{journal}");
}

fn what_is_frozen_is_thawed_before_it_is_told_to_end() {
    let node = Node::new();
    // Where the node's control groups are: in v1 a paused container, and in v2.
    let groups = [("freezer/kubepods/pod/freezer.state", "FROZEN"), ("kubepods/cgroup.freeze", "1")];
    for (file, frozen) in groups {
        node.write(&format!("sys/fs/cgroup/{file}"), frozen);
    }
    let containerd = fs::read_to_string(node.program(&Unit::CONTAINERD)).unwrap();
    // It reports what it finds on SIGTERM.
    node.script(
        "pod",
        "trap 'cat $ROOT/sys/fs/cgroup/*/*/*/freezer.state $ROOT/sys/fs/cgroup/*/cgroup.freeze > $ROOT/seen; exit' TERM
        sleep 60 & echo pod up >> $ROOT/events; wait",
    );
    node.script("containerd", &format!("$ROOT/bin/pod &\n{}", containerd.trim_start_matches("#!/bin/sh\n")));
    let mut node = node.start();
    node.wait_for("pod up");
    node.wait_for_sleepers(1);
    assert!(node.go_down().success());
    assert_eq!(node.read("seen"), "THAWED0");
}

fn logs_have_a_maximum_size() {
    let mut node = Node::new().with_kubelet_files();
    node.config.log_bytes = 100_000;
    node.script("kubelet", "seq 1 300000; echo kubelet up >> $ROOT/events; echo the end >&2; sleep 60");
    let node = node.start();
    node.wait_for("kubelet up");
    wait_until("all is in the log", || node.read("var/log/flotilla/kubelet.log").ends_with("the end\n"));
    for name in ["kubelet.log", "kubelet.log.1", "kubelet.log.2"] {
        let log = node.read(&format!("var/log/flotilla/{name}"));
        assert!((1..=100_000).contains(&log.len()), "{name}: {}", log.len());
        assert!(log.ends_with('\n'), "{name} ends with a whole line");
    }
    assert!(!node.path("var/log/flotilla/kubelet.log.3").exists());
}

fn the_journal_tells_what_happened() {
    let mut node = Node::new().start();
    node.signal(Signal::USR1);
    let journal = "var/log/flotilla/init.log";
    wait_until("the state is reported", || {
        node.read(journal).contains("; kubelet: activating (waits for its files)")
    });
    wait_until("containerd answers", || node.read(journal).contains("containerd answers"));
    node.go_down();
    let said = node.read(journal);
    let expected =
        ["the node starts", "containerd: started as ", "containerd answers", "goes down", "is down"];
    assert!(in_order(&said, &expected), "{said}");
    assert_eq!(node.read("console"), said, "the console says the same");
}

fn packet_filter_rules_are_loaded_first() {
    let node = Node::new();
    node.write("etc/flotilla/nft.conf", "table ip t {}\n");
    node.script("nft", "echo \"nft $1 $(cat $2)\" >> $ROOT/events");
    let node = node.start();
    node.wait_for("containerd up");
    assert_eq!(node.events()[0], "nft -f table ip t {}");
}

fn bad_packet_filter_rules_are_an_error() {
    let node = Node::new();
    node.write("etc/flotilla/nft.conf", "nonsense");
    node.script("nft", "sleep 0.2; echo syntax error >&2; exit 1");
    let mut node = node.spawn();
    assert_eq!(node.wait().code(), Some(1));
    let console = node.read("console");
    assert!(console.contains("/etc/flotilla/nft.conf (exit status: 1): syntax error"), "{console}");
    assert!(node.events().is_empty(), "nothing was started");
}

fn hangups_mean_nothing() {
    let node = Node::new().start();
    node.signal(Signal::HUP);
    assert_eq!(node.systemctl("is-active containerd"), ("active".into(), 0));
}

fn the_node_says_how_it_is() {
    let mut node = Node::new().with_kubelet_files();
    // Whoever holds this: it is on the loopback link.
    node.config.virtual_ip = Some("127.0.0.1/8".parse().unwrap());
    let node = node.start();
    let status = || -> NodeStatus { serde_json::from_str(&node.flotilla_init("status", "").0).unwrap() };
    node.wait_for("kubelet up");
    let before = status();
    assert_eq!((before.protocol, before.holds_virtual_ip), (PROTOCOL, true));
    assert!(before.is_active(&Unit::KUBELET) && before.is_active(&Unit::CONTAINERD));
    assert_eq!(before.unit(&Unit::KEEPALIVED).unwrap().state, State::Activating, "it waits for its file");
    assert_eq!(before.deaths(&Unit::KUBELET), 0);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(u64::try_from(before.booted_at).is_ok_and(|at| at <= clock.as_secs()));
    kill_process(node.process("bin/kubelet"), Signal::KILL).unwrap();
    wait_until("it runs again", || node.count("kubelet up") == 2 && status().is_active(&Unit::KUBELET));
    let after = status();
    let kubelet = after.unit(&Unit::KUBELET).unwrap();
    assert_eq!((kubelet.starts, kubelet.deaths), (2, 1));
    assert_eq!(kubelet.last_exit.as_deref(), Some("signal 9"));
    assert_eq!(after.booted_at, before.booted_at);
    assert!(after.up_for_ms >= before.up_for_ms);
    node.systemctl("stop kubelet");
    assert_eq!(status().deaths(&Unit::KUBELET), 1, "one that was stopped has not died");
}

fn a_configuration_of_another_protocol_is_refused() {
    let node = Node::new().start();
    let config = NodeConfig {
        protocol: PROTOCOL + 1,
        hostname: "demo".to_owned(),
        link: Link {
            name: "eth0".to_owned(),
            mtu: Some(1500),
            address: "192.0.2.2/24".parse().unwrap(),
            gateway: "192.0.2.1".parse().unwrap(),
        },
        routes: None,
        virtual_ip: VirtualIp::None,
        files: std::collections::BTreeMap::new(),
        services: Vec::new(),
    };
    for line in ["configure", "configure --check"] {
        let (out, err, success) = node.flotilla_init(line, &serde_json::to_string(&config).unwrap());
        assert!(!success && out.is_empty(), "{out}");
        assert!(err.starts_with(FAILURE) && err.contains("another version"), "{err}");
    }
}
