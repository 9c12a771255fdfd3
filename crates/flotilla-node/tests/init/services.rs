//! Services that only some nodes have, here `agent`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use flotilla_node_api::{Configured, Need, NodeStatus, ServiceSpec, State, Unit};
use rustix::process::{Signal, kill_process};

use crate::cases::{Case, PODS_ARE_TOLD, cases, in_order};
use crate::node::{Node, Running, SHORT, wait_until};

pub(crate) const ALL: &[Case] = cases![
    a_service_on_demand_starts_when_it_is_asked_for_and_is_kept_running,
    a_service_ends_after_the_kubelet_and_before_pods,
    a_stubborn_service_has_its_own_grace,
    a_service_waits_for_the_service_and_the_file_that_it_needs,
    unknown_units_are_reported_the_way_kubeadm_reads_it,
    requests_that_are_not_understood_are_refused,
    a_host_of_protocol_1_leaves_services_that_it_does_not_know,
];

/// An agent that reports its start with its first argument, and its end.
const AGENT: &str = "trap 'echo agent ends >> $ROOT/events; exit' TERM
sleep 60 & echo \"agent up $1\" >> $ROOT/events
wait";

fn agent() -> Unit {
    Unit::named("agent")
}

fn spec() -> ServiceSpec {
    ServiceSpec {
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        ..ServiceSpec::new(agent(), ["agent", "$GREETING"])
    }
}

fn with_agent(spec: ServiceSpec, script: &str) -> Node {
    let mut node = Node::new();
    node.add_service(spec);
    node.script("agent", script);
    node
}

fn status(node: &Running) -> NodeStatus {
    serde_json::from_str(&node.flotilla_init("status", "").0).unwrap()
}

fn a_service_on_demand_starts_when_it_is_asked_for_and_is_kept_running() {
    let node = with_agent(ServiceSpec { on_demand: true, ..spec() }, AGENT).start();
    node.wait_for("containerd up");
    assert_eq!(node.systemctl("is-active agent"), ("inactive".into(), 3));
    assert_eq!(status(&node).unit(&agent()).unwrap().starts, 0);
    assert_eq!(node.systemctl("start agent"), (String::new(), 0));
    node.wait_for("agent up hello");
    assert_eq!(node.systemctl("is-active agent.service"), ("active".into(), 0));
    kill_process(node.process("bin/agent"), Signal::KILL).unwrap();
    wait_until("it runs again", || node.count("agent up") == 2 && status(&node).is_active(&agent()));
    assert_eq!(status(&node).deaths(&agent()), 1);
    assert!(node.path("var/log/flotilla/agent.log").exists());
    node.wait_for_sleepers(2);
    assert_eq!(node.systemctl("stop agent"), (String::new(), 0));
    assert_eq!(node.count("agent ends"), 1);
    assert_eq!(status(&node).unit(&agent()).unwrap().state, State::Inactive);
}

fn a_service_ends_after_the_kubelet_and_before_pods() {
    let node = with_agent(spec(), AGENT).with_kubelet_files();
    let containerd = fs::read_to_string(node.program(&Unit::CONTAINERD)).unwrap();
    node.script("pod", "trap 'echo pod ends >> $ROOT/events; exit' TERM; sleep 60 & wait");
    node.script("containerd", &format!("$ROOT/bin/pod &\n{}", containerd.trim_start_matches("#!/bin/sh\n")));
    let mut node = node.start();
    node.wait_for("kubelet up");
    node.wait_for("agent up");
    node.wait_for_sleepers(3);
    assert!(node.go_down().success());
    let events = node.events();
    let from = events.iter().position(|event| event == "kubelet ends").unwrap();
    assert_eq!(events[from..], ["kubelet ends", "agent ends", "pod ends", "containerd ends"]);
    assert!(!node.journal().contains("killing"), "all ended on SIGTERM: {}", node.journal());
}

fn a_stubborn_service_has_its_own_grace() {
    // All other graces are longer than any case.
    let stubborn = "trap '' TERM; echo agent up >> $ROOT/events; while :; do sleep 1; done";
    let mut node = with_agent(ServiceSpec { grace: Some(SHORT), ..spec() }, stubborn).start();
    node.wait_for("agent up");
    assert_eq!(node.systemctl("restart agent"), (String::new(), 0));
    wait_until("it is a new one", || node.count("agent up") == 2);
    assert!(node.go_down().success());
    let journal = node.journal();
    let said = ["goes down", "agent: ending ", "agent: does not end, killing ", PODS_ARE_TOLD, "is down"];
    assert!(in_order(&journal[journal.find(said[0]).unwrap()..], &said), "{journal}");
}

fn a_service_waits_for_the_service_and_the_file_that_it_needs() {
    let needs = vec![Need::Service(Unit::KEEPALIVED), Need::file(["/etc/agent/one", "/etc/agent/two"])];
    let node = with_agent(ServiceSpec { needs, ..spec() }, AGENT).start();
    assert_eq!(node.systemctl("status agent"), ("agent: activating (waits for its files)".into(), 3));
    node.write("etc/agent/two", "");
    wait_until("it waits for keepalived", || {
        node.systemctl("status agent").0.starts_with("agent: activating (waits for other services")
    });
    assert_eq!(node.count("agent up"), 0);
    node.write(&ServiceSpec::KEEPALIVED_CONF[1..], "");
    node.wait_for("agent up");
}

fn unknown_units_are_reported_the_way_kubeadm_reads_it() {
    let node = Node::new().start();
    assert_eq!(node.systemctl("is-active firewalld"), ("inactive".into(), 3));
    assert_eq!(node.systemctl("status firewalld"), ("Unit firewalld could not be found.".into(), 4));
    assert_eq!(node.systemctl("start firewalld"), (String::new(), 5));
    assert_eq!(node.systemctl("is-enabled firewalld"), ("disabled".into(), 1));
    assert_eq!(node.systemctl("is-enabled -q firewalld"), (String::new(), 1));
    for known in ["kubelet", "containerd.service", "keepalived"] {
        assert_eq!(node.systemctl(&format!("is-enabled {known}")), ("enabled".into(), 0));
    }
}

fn requests_that_are_not_understood_are_refused() {
    let node = Node::new().start();
    let ask = |line: &str| {
        let mut stream = UnixStream::connect(node.path("run/flotilla/init.sock")).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    assert!(ask(r#"{"verb":"explode","unit":"kubelet"}"#).starts_with(r#"{"refused":"not a request"#));
    assert_eq!(ask(r#"{"verb":"stop","unit":"sshd"}"#), "{\"no-such-unit\":\"sshd\"}\n");
    assert_eq!(node.systemctl("is-active containerd"), ("active".into(), 0), "PID 1 goes on");
}

fn a_host_of_protocol_1_leaves_services_that_it_does_not_know() {
    let node = with_agent(spec(), AGENT).start();
    node.wait_for("agent up");
    let config = r#"{"protocol":1,"hostname":"demo","link":{"name":"lo","address":"127.0.0.1/8",
        "gateway":"127.0.0.1"},"routes":null,"virtual_ip":"none",
        "files":{"/etc/hosts":{"text":"127.0.0.1 localhost\n","always":true}}}"#;
    let (out, err, success) = node.flotilla_init("configure --check", config);
    assert!(success, "{err}");
    let checked: Configured = serde_json::from_str(&out).unwrap();
    assert_eq!(checked.protocol, 1);
    assert!(checked.differs.contains(&"/etc/hosts".to_owned()), "{checked:?}");
    let agent = status(&node).unit(&agent()).unwrap().clone();
    assert_eq!((agent.state, agent.starts), (State::Active, 1));
}
