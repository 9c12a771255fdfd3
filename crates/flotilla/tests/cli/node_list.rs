//! Nodes of a cluster that does not run, by every name and in every form.

use flotilla_linux::process::host_size;
use flotilla_spec::Memory;
use flotilla_spec::quantity::MIB;
use flotilla_testkit::{Home, Ran};
use insta::assert_snapshot;

use super::stopped::home_with;

const NODES: &str = "
- name: demo
  role: control-plane
  state: stopped
- name: demo-m02
  role: worker
  memory: 2g
  cpus: 1
  kubernetesVersion: v1.36.4
  labels: {disk: ssd}
  taints: ['dedicated=batch:NoSchedule']
  ports: ['8080:30080']
  mounts: ['/usr/share:/share:ro']
  state: stopped
- name: big
  role: worker
  state: stopped
";

fn fleet() -> Option<Home> {
    home_with(NODES, &["demo", "demo-m02", "big"])
}

#[test]
fn nodes_are_listed_with_what_each_has() {
    let Some(home) = fleet() else { return };
    assert_snapshot!(on_any_host(&home.run(["node", "list", "-p", "demo"])), @"
    NAME  IP  ROLE  STATUS  VERSION  CPUS  MEMORY
    demo  10.213.77.2  control-plane  Stopped  v1.37.1  [CPUS]  [MEMORY]
    demo-m02  10.213.77.3  worker  Stopped  v1.36.4  1  2Gi
    big  10.213.77.4  worker  Stopped  v1.37.1  [CPUS]  [MEMORY]
    ");
    assert_snapshot!(on_any_host(&home.run(["node", "list", "-p", "demo", "-o", "wide"])), @"
    NAME  IP  ROLE  STATUS  VERSION  CPUS  MEMORY  PODS  ISOLATION  LABELS  TAINTS  PORTS
    demo  10.213.77.2  control-plane  Stopped  v1.37.1  [CPUS]  [MEMORY]  10.254.0.0/24  none
    demo-m02  10.213.77.3  worker  Stopped  v1.36.4  1  2Gi  10.254.1.0/24  none  disk=ssd  dedicated=batch:NoSchedule  8080:30080
    big  10.213.77.4  worker  Stopped  v1.37.1  [CPUS]  [MEMORY]  10.254.2.0/24  none
    ");
    assert_snapshot!(home.run(["node", "list", "-p", "demo", "-o", "json"]).json()[1], @r#"{"CPUs":"1","IP":"10.213.77.3","Isolation":"none","Labels":"disk=ssd","Memory":"2Gi","Mounts":"/usr/share:/share:ro","Name":"demo-m02","PID":null,"PodCIDR":"10.254.1.0/24","Ports":"8080:30080","Role":"worker","Status":"Stopped","Taints":"dedicated=batch:NoSchedule","Version":"v1.36.4","Wanted":"Stopped"}"#);
}

/// A list without what this host has, which differs from host to host, and so does how wide its columns are.
fn on_any_host(ran: &Ran) -> String {
    let host = host_size();
    let (cpus, memory) = (host.cpus.to_string(), Memory::Bytes(host.memory - host.memory % MIB).to_string());
    let any = |line: &str| {
        // The limits of this node may be what the host has.
        let is_limited = line.starts_with("demo-m02 ");
        let any = |word| match word {
            word if word == cpus && !is_limited => "[CPUS]",
            word if word == memory && !is_limited => "[MEMORY]",
            word => word,
        };
        line.split_whitespace().map(any).collect::<Vec<_>>().join("  ")
    };
    ran.stdout.lines().map(any).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_node_that_should_run_and_does_not_is_told_from_one_that_was_stopped() {
    let nodes = "
- {name: demo, role: control-plane}
- {name: demo-m02, role: worker, state: stopped}
";
    let Some(home) = home_with(nodes, &["demo", "demo-m02"]) else { return };
    let ran =
        home.run(["node", "list", "-p", "demo", "--format", "{{.Name}} {{.Status}} {{.Wanted}}"]).success();
    assert_eq!(ran.stdout, "demo Stopped Running\ndemo-m02 Stopped Stopped\n");
    let ran = home.run(["node", "list", "-p", "demo"]).success();
    let ended: Vec<_> = ran.stdout.lines().filter(|line| line.contains("Stopped (should run)")).collect();
    assert!(ended.len() == 1 && ended[0].starts_with("demo "), "{ran}");
}

#[test]
fn templates_may_have_spaces() {
    let Some(home) = fleet() else { return };
    for template in ["{{.Name}} {{.Version}}", "{{ .Name }} {{ .Version }}"] {
        let ran = home.run(["node", "list", "-p", "demo", "--format", template]).success();
        assert_eq!(ran.stdout, "demo v1.37.1\ndemo-m02 v1.36.4\nbig v1.37.1\n");
    }
}

#[test]
fn the_cluster_is_named_anywhere() {
    let Some(home) = fleet() else { return };
    let forms: [&[&str]; 5] = [
        &["-p", "demo", "node", "ip", "m02"],
        &["node", "-p", "demo", "ip", "m02"],
        &["node", "ip", "-p", "demo", "m02"],
        &["node", "ip", "m02", "-p", "demo"],
        &["--profile=demo", "worker", "ip", "m02"],
    ];
    for form in forms {
        assert_eq!(home.run(form).success().stdout, "10.213.77.3\n", "{form:?}");
    }
}

#[test]
fn a_node_has_a_short_and_a_full_name_and_may_be_named_by_a_flag() {
    let Some(home) = fleet() else { return };
    let names: [&[&str]; 5] = [&["m02"], &["demo-m02"], &["-n", "m02"], &["--node", "demo-m02"], &["big"]];
    let of = |verb: &str| {
        names.map(|name| {
            let ran = home.run(["-p", "demo", "node", verb].iter().chain(name));
            (ran.status, ran.stdout)
        })
    };
    let ip = of("ip").map(|(status, ip)| (status, ip.trim().to_owned()));
    assert_eq!(ip[..4], [(); 4].map(|()| (0, "10.213.77.3".to_owned())));
    assert_eq!(ip[4].1, "10.213.77.4");
    for (at, (status, text)) in of("status").into_iter().enumerate() {
        let (name, ip) = if at < 4 { ("demo-m02", "10.213.77.3") } else { ("big", "10.213.77.4") };
        let reported = format!("{name}\ntype: Worker\nhost: Stopped\nkubelet: Stopped\nip: {ip}\n");
        assert!(status == 7 && text.starts_with(&reported), "{text}");
    }
    let missing = home.run(["-p", "demo", "node", "ip", "m07"]);
    assert_eq!(
        missing.stderr,
        "error[GUEST_NODE_NOT_FOUND]: cluster demo has no node m07\nhint: existing nodes: demo, demo-m02, big\n"
    );
    // Only one of both.
    assert_eq!(home.run(["-p", "demo", "node", "ip", "m02", "-n", "big"]).status, 14);
}

#[test]
fn a_full_name_goes_before_another_ones_short_one() {
    // Only by hand can a node come to the name `m02`: a file takes it for a short one.
    let nodes = "
- {name: demo, role: control-plane, state: stopped}
- {name: demo-m02, role: worker, state: stopped}
- {name: m02, role: worker, state: stopped}
";
    let Some(home) = home_with(nodes, &["demo", "demo-m02", "m02"]) else { return };
    for (name, ip) in [("m02", "10.213.77.4\n"), ("demo-m02", "10.213.77.3\n")] {
        assert_eq!(home.run(["-p", "demo", "node", "ip", name]).success().stdout, ip);
    }
}

#[test]
fn without_a_name_status_is_that_of_all_and_the_address_that_of_the_primary() {
    let Some(home) = fleet() else { return };
    let ran = home.run(["-p", "demo", "node", "status", "--format", "{{.Name}}"]);
    assert_eq!(ran.stdout, "demo\ndemo-m02\nbig\n");
    assert_eq!(home.run(["-p", "demo", "node", "ip"]).success().stdout, "10.213.77.2\n");
}

#[test]
fn the_older_name_of_the_group_has_the_same_commands() {
    let Some(home) = fleet() else { return };
    let run = |args: &[&str]| home.run(["-p", "demo", "worker"].iter().chain(args));
    assert_eq!(run(&["list"]).to_string(), home.run(["-p", "demo", "node", "list"]).to_string());
    assert_eq!(run(&["status", "m02"]).status, 7);
    assert_eq!(run(&["ip", "big"]).success().stdout, "10.213.77.4\n");
    assert_eq!(run(&["stop", "m02"]).success().stdout, "node demo-m02 is already stopped\n");
    for verb in ["create", "start", "delete", "ssh", "logs"] {
        let help = home.run(["worker", verb, "--help"]).success().stdout;
        assert!(help.contains("Usage: flotilla node "), "{help}");
    }
    for command in [&["start", "m02"] as &[&str], &["create", "m03"], &["ssh"], &["logs"]] {
        assert_eq!(run(command).status, 83, "{command:?}");
    }
}

#[test]
fn what_a_stopped_cluster_refuses_leaves_it_as_it_was() {
    let Some(home) = fleet() else { return };
    let file = home.state().join("clusters/demo/cluster.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    for command in [["node", "add", "m03"], ["node", "start", "m02"]] {
        let ran = home.run(["-p", "demo"].iter().chain(&command));
        assert!(ran.stderr.contains("hint: start it with `flotilla start -p demo`"), "{ran}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn the_logs_that_a_node_left_are_shown() {
    let Some(home) = fleet() else { return };
    let directory = home.state().join("clusters/demo/nodes/demo-m02/var/log/flotilla");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("kubelet.log"), "one\ntwo\nthree\n").unwrap();
    assert_snapshot!(home.run(["-p", "demo", "node", "logs", "m02", "-n", "2"]), @"
    status: 0
    ----- stdout -----
    ==> /var/log/flotilla/kubelet.log <==
    two
    three

    ----- stderr -----
    node demo-m02 is not running: showing its log files
    hint: start it with `flotilla start -p demo`
    ");
    // Nothing more will come.
    assert_eq!(home.run(["-p", "demo", "node", "logs", "m02", "-f"]).status, 83);
}
