//! Use cases that only read: `ip`, `export`, `list`, `node list`, `logs`, `ssh`, `kubectl`.

use flotilla_core::{Bootstrapper, Driver, Exit, Kubeconfig, MachineId, TtySize};
use flotilla_ops::logs::Logs;
use flotilla_ops::ssh::Streams;
use flotilla_ops::{Context, OpError, export, ip, kubectl, list, list_nodes, logs, ssh};
use flotilla_spec::{ClusterName, WantedPower};
use flotilla_testkit::fake::{Act, Opened};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{World, demo};

const ROLES: [&str; 2] = ["control-plane", "worker"];

async fn address(world: &World, node: Option<&str>) -> Result<String, OpError> {
    let request = ip::Request { cluster: demo(), node: node.map(str::to_owned) };
    ip::run(&world.context(), &request).await.map(|found| format!("{} {}", found.name, found.ip))
}

#[tokio::test]
async fn a_node_is_found_by_its_full_or_short_name() {
    let world = World::running(&ROLES).await;
    for (node, found) in [
        (None, "demo 10.213.0.2"),
        (Some("demo"), "demo 10.213.0.2"),
        (Some("m02"), "demo-m02 10.213.0.3"),
        (Some("demo-m02"), "demo-m02 10.213.0.3"),
    ] {
        assert_eq!(address(&world, node).await.unwrap(), found, "{node:?}");
    }
    let error = address(&world, Some("m03")).await.unwrap_err();
    assert_eq!(
        (error.code().name, error.to_string().as_str()),
        ("GUEST_NODE_NOT_FOUND", "cluster demo has no node m03")
    );
    assert_eq!(world.host.calls.log(), [""; 0], "nothing was asked of the host");
}

/// All that read one cluster, as far as they fail.
async fn errors(cx: &Context<'_>, cluster: &flotilla_spec::ClusterName) -> Vec<&'static str> {
    let cluster = || cluster.clone();
    let code = |error: OpError| error.code().name;
    vec![
        ip::run(cx, &ip::Request { cluster: cluster(), node: None }).await.map_err(code).err(),
        export::run(cx, &export::Request { cluster: cluster() }).await.map_err(code).err(),
        list_nodes::run(cx, &list_nodes::Request { cluster: cluster() }).await.map_err(code).err(),
        kubectl::run(cx, &kubectl::Request { cluster: cluster() }).await.map_err(code).err(),
        ssh::run(cx, &ssh_request(cluster(), None, &[])).await.map_err(code).err(),
        logs::run(cx, &logs_request(cluster(), None, false)).await.map_err(code).err(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[tokio::test]
async fn a_cluster_that_does_not_exist_and_a_person_who_is_not_root_are_refused() {
    let mut world = World::running(&ROLES).await;
    let absent = "absent".parse().unwrap();
    assert_eq!(errors(&world.context(), &absent).await, ["GUEST_NO_CLUSTER"; 6]);
    world.is_root = false;
    assert_eq!(errors(&world.context(), &demo()).await, ["HOST_PERMISSION"; 6]);
    assert_eq!(world.host.calls.log(), [""; 0]);
    assert_eq!(world.store.names().unwrap(), [demo()], "no directory was made");
}

#[tokio::test]
async fn an_exported_file_makes_the_same_cluster() {
    let world = World::running(&ROLES).await;
    let exported = export::run(&world.context(), &export::Request { cluster: demo() }).await.unwrap();
    assert!(!exported.is_headless);
    let spec = flotilla_spec::ClusterSpec::from_yaml(&exported.file).unwrap();
    assert_eq!(spec.nodes.iter().map(|node| node.name.as_ref()).collect::<Vec<_>>(), ["demo", "demo-m02"]);
}

async fn listed(world: &World, light: bool) -> String {
    let listed = list::run(&world.context(), list::Request { light, control_planes: false }).await.unwrap();
    let line = |it: list::Listed| match it.state {
        list::State::Valid(valid) => {
            let power = valid.power.map(|it| format!("{:?} {}", it.status, it.nodes_running));
            format!("{} {} current: {}", it.name, power.unwrap_or_default(), valid.is_current)
        }
        list::State::Invalid { error, is_unfinished, .. } => {
            format!(
                "{} unfinished: {is_unfinished}, {}",
                it.name,
                error.split(" /").next().unwrap_or_default()
            )
        }
    };
    listed.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn clusters_are_listed_with_what_their_machines_say() {
    let world = World::running(&ROLES).await;
    assert_eq!(listed(&world, false).await, "demo Running 2 current: true");
    world.host.driver.lose_power(&demo(), &"demo-m02".parse().unwrap());
    assert_eq!(listed(&world, false).await, "demo Partial 1 current: true");
    let machine = world.machine("demo").await;
    world.host.bootstrapper.pause(machine.as_ref(), None).await.unwrap();
    assert_eq!(listed(&world, false).await, "demo Paused 1 current: true");
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    world.host.kubeconfig.break_it();
    assert_eq!(listed(&world, false).await, "demo Stopped 0 current: false");
    world.forget();
    assert_eq!(listed(&world, true).await, "demo  current: false");
    assert!(!world.host.calls.log().contains(&"find".to_owned()), "a light list asks no machine");
}

async fn healthy(world: &World) -> Option<usize> {
    let request = list::Request { light: false, control_planes: true };
    match list::run(&world.context(), request).await.unwrap().remove(0).state {
        list::State::Valid(valid) => valid.power.unwrap().healthy_control_planes,
        list::State::Invalid { error, .. } => panic!("{error}"),
    }
}

#[tokio::test]
async fn healthy_control_planes_are_counted_where_there_are_several() {
    assert_eq!(healthy(&World::running(&ROLES).await).await, None);
    let world = World::running(&["control-plane", "control-plane", "control-plane", "worker"]).await;
    assert_eq!(healthy(&world).await, Some(3));
    world.host.driver.lose_power(&demo(), &"demo-m02".parse().unwrap());
    assert_eq!(healthy(&world).await, Some(2));
    world.host.kubeconfig.remove(&demo(), &[]).unwrap();
    assert_eq!(healthy(&world).await, Some(0), "the kubeconfig does not lead to it");
}

#[tokio::test]
async fn a_state_that_cannot_be_used_is_listed_with_the_reason() {
    let world = World::running(&ROLES).await;
    std::fs::create_dir(world.store.folder(&"begun".parse().unwrap())).unwrap();
    std::fs::write(world.store.folder(&demo()).join("state.json"), "{").unwrap();
    assert_eq!(
        listed(&world, false).await,
        "begun unfinished: true, cluster begun does not exist\ndemo unfinished: false, cannot read the state of cluster demo:"
    );
}

#[tokio::test]
async fn nodes_are_listed_while_the_api_does_not_answer() {
    let world = World::running(&ROLES).await;
    world.host.bootstrapper.fall_silent();
    world.host.driver.lose_power(&demo(), &"demo-m02".parse().unwrap());
    let nodes = list_nodes::run(&world.context(), &list_nodes::Request { cluster: demo() }).await.unwrap();
    let status: Vec<_> = nodes.iter().map(|it| (it.node.spec.name.as_ref(), it.status)).collect();
    assert_eq!(status, [("demo", list_nodes::Status::Running), ("demo-m02", list_nodes::Status::Stopped)]);
    assert_eq!(nodes[1].node.spec.power, WantedPower::Running, "it ended by itself");
    assert_eq!((nodes[0].version.as_str(), nodes[0].memory), ("v1.37.1", 32 << 30));
    let again: Vec<list_nodes::ListedNode> =
        serde_json::from_value(serde_json::to_value(&nodes).unwrap()).unwrap();
    assert_eq!(again, nodes);
}

fn ssh_request(cluster: ClusterName, node: Option<&str>, command: &[&str]) -> ssh::Request {
    let command = command.iter().map(ToString::to_string).collect();
    let (node, term) = (node.map(str::to_owned), Some("xterm".to_owned()));
    ssh::Request { cluster, node, command, term, streams: Streams::Apart }
}

fn logs_request(cluster: ClusterName, node: Option<&str>, follow: bool) -> logs::Request {
    logs::Request { cluster, node: node.map(str::to_owned), lines: 2, follow, streams: Streams::Apart }
}

/// What was opened last.
fn opened(world: &World) -> Opened {
    world.host.driver.programs.opened().pop().unwrap()
}

async fn shell(world: &World, node: Option<&str>, command: &[&str]) -> Result<String, OpError> {
    ssh::run(&world.context(), &ssh_request(demo(), node, command)).await?;
    let Opened { node, argv, .. } = opened(world);
    Ok(format!("{node}: {}", argv.join(" ")))
}

#[tokio::test]
async fn the_first_word_may_name_the_node_with_or_without_two_dashes_after_it() {
    let world = World::running(&ROLES).await;
    for (node, command, ran) in [
        (None, &[][..], "demo: bash -l"),
        (None, &["m02"], "demo-m02: bash -l"),
        (None, &["m02", "--", "ps", "-e"], "demo-m02: bash -c ps -e"),
        (None, &["m02", "ps", "-e"], "demo-m02: bash -c ps -e"),
        (None, &["ps", "-e"], "demo: bash -c ps -e"),
        (Some("m02"), &["ps"], "demo-m02: bash -c ps"),
    ] {
        assert_eq!(shell(&world, node, command).await.unwrap(), ran);
    }
    world.host.driver.lose_power(&demo(), &"demo-m02".parse().unwrap());
    assert_eq!(
        shell(&world, Some("m02"), &[]).await.unwrap_err().to_string(),
        "node demo-m02 is not running"
    );
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    assert_eq!(shell(&world, Some("m02"), &[]).await.unwrap_err().to_string(), "cluster demo is stopped");
}

#[tokio::test]
async fn a_word_like_a_node_that_does_not_exist_is_no_program() {
    let world = World::running(&ROLES).await;
    for word in ["m99", "demo-m99"] {
        let error = shell(&world, None, &[word]).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cluster demo has no node {word}"));
        assert!(error.hints()[0].contains("demo-m02"), "{:?}", error.hints());
    }
    for word in ["m1", "m4", "demo-monitor", "make", "m02x"] {
        assert_eq!(shell(&world, None, &[word]).await.unwrap(), format!("demo: bash -c {word}"));
    }
    // As ssh does it: one argument is a line for the shell.
    assert_eq!(shell(&world, None, &["ps -e | wc -l"]).await.unwrap(), "demo: bash -c ps -e | wc -l");
}

#[tokio::test]
async fn a_program_has_the_streams_of_whoever_asks() {
    let world = World::running(&ROLES).await;
    world.host.driver.programs.add("ps", &[Act::Echo, Act::End(Exit::Code(9))]);
    let size = TtySize { rows: 3, columns: 9 };
    for (streams, argv, tty) in [
        (Streams::Apart, &["bash", "-c", "ps"][..], None),
        (Streams::Terminal(size), &["bash", "-c", "ps"], Some(size)),
        (Streams::Joined, &["sh", "-c", "exec \"$@\" 2>&1", "sh", "bash", "-c", "ps"], None),
    ] {
        let request = ssh::Request { streams, ..ssh_request(demo(), None, &["ps"]) };
        let mut session = ssh::run(&world.context(), &request).await.unwrap();
        session.stdin.write_all(b"typed").await.unwrap();
        session.stdin.shutdown().await.unwrap();
        let mut text = String::new();
        session.stdout.read_to_string(&mut text).await.unwrap();
        assert_eq!((text.as_str(), session.program.wait().await.unwrap()), ("typed", Exit::Code(9)));
        let found = opened(&world);
        assert_eq!(
            (found.argv.iter().map(String::as_str).collect::<Vec<_>>(), found.tty),
            (argv.to_vec(), tty)
        );
        assert_eq!(found.env, [("TERM".to_owned(), "xterm".to_owned())]);
    }
}

#[tokio::test]
async fn kubectl_is_the_bundles_and_needs_a_control_plane() {
    let world = World::running(&ROLES).await;
    let request = kubectl::Request { cluster: demo() };
    let found = kubectl::run(&world.context(), &request).await.unwrap();
    assert!(found.program.ends_with("bin/kubectl") && found.kubeconfig.ends_with("clusters/demo/kubeconfig"));
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    let error = kubectl::run(&world.context(), &request).await.unwrap_err();
    assert_eq!(error.code().name, "GUEST_NOT_RUNNING");
}

async fn show_logs(world: &World, follow: bool) -> Result<Logs, OpError> {
    logs::run(&world.context(), &logs_request(demo(), Some("m02"), follow)).await
}

#[tokio::test]
async fn logs_are_shown_by_the_node_or_read_from_its_disk() {
    let world = World::running(&ROLES).await;
    let Logs::Running(_) = show_logs(&world, true).await.unwrap() else { panic!("it runs") };
    let argv = opened(&world).argv;
    assert!(argv[2].contains("exec tail -v -n 2 -F "), "{argv:?}");
    let machine = world.machine("demo-m02").await;
    machine.guest().write("/var/log/flotilla/kubelet.log", 0o600, b"a\nb\nc\n").await.unwrap();
    world.host.driver.lose_power(&demo(), &"demo-m02".parse().unwrap());
    let Logs::Off(logs) = show_logs(&world, false).await.unwrap() else { panic!("it is off") };
    assert!(logs.cluster_runs);
    assert_eq!(
        (logs.files[0].path.as_str(), logs.files[0].text.as_str()),
        ("/var/log/flotilla/kubelet.log", "b\nc")
    );
    assert_eq!(
        show_logs(&world, true).await.unwrap_err().code().name,
        "GUEST_NOT_RUNNING",
        "nothing to follow"
    );
}

#[tokio::test]
async fn a_cluster_is_unknown_if_all_others_run_but_one_cannot_be_asked_about() {
    let world = World::running(&["control-plane", "worker", "worker"]).await;
    let mut cluster = world.found().await.cluster.unwrap();
    // Another flotilla has made it.
    cluster.spec.nodes[1].driver = Some(flotilla_spec::DriverName::new("vm"));
    world.save(&cluster);
    world.host.driver.remove(&MachineId::new(&demo(), &"demo-m02".parse().unwrap())).await.unwrap();
    assert_eq!(listed(&world, false).await, "demo Unknown 2 current: true");
    world.host.driver.lose_power(&demo(), &"demo-m03".parse().unwrap());
    assert_eq!(listed(&world, false).await, "demo Partial 1 current: true");
}
