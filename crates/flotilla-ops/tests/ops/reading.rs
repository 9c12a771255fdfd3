//! Use cases that only read: `ip`, `export`, `list`, `node list`, `logs`, `ssh`, `kubectl`.

use flotilla_core::Bootstrapper;
use flotilla_ops::logs::Logs;
use flotilla_ops::{Context, OpError, export, ip, kubectl, list, list_nodes, logs, ssh};
use flotilla_spec::WantedPower;

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
        ssh::run(cx, &ssh::Request { cluster: cluster(), node: None, command: Vec::new() })
            .await
            .map_err(code)
            .err(),
        logs::run(cx, &logs::Request { cluster: cluster(), node: None, lines: 5, follow: false })
            .await
            .map_err(code)
            .err(),
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
    let listed = list::run(&world.context(), list::Request { light }).await.unwrap();
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
    assert_eq!(listed(&world, false).await, "demo Degraded 1 current: true");
    let machine = world.context().engine().machine(&demo(), &"demo".parse().unwrap()).await.unwrap();
    world.host.bootstrapper.pause(machine.as_ref(), None).await.unwrap();
    assert_eq!(listed(&world, false).await, "demo Paused 1 current: true");
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    world.host.kubeconfig.break_it();
    assert_eq!(listed(&world, false).await, "demo Stopped 0 current: false");
    world.forget();
    assert_eq!(listed(&world, true).await, "demo  current: false");
    assert!(!world.host.calls.log().contains(&"find".to_owned()), "a light list asks no machine");
}

#[tokio::test]
async fn a_state_that_cannot_be_used_is_listed_with_the_reason() {
    let world = World::running(&ROLES).await;
    std::fs::create_dir(world.store.folder(&"begun".parse().unwrap())).unwrap();
    std::fs::write(world.store.folder(&demo()).join("state.json"), "{").unwrap();
    assert_eq!(
        listed(&world, false).await,
        "begun unfinished: true, there is no cluster begun\ndemo unfinished: false, cannot read the state of cluster demo:"
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

async fn shell(world: &World, node: Option<&str>, command: &[&str]) -> Result<String, OpError> {
    let command = command.iter().map(ToString::to_string).collect();
    let request = ssh::Request { cluster: demo(), node: node.map(str::to_owned), command };
    let program = ssh::run(&world.context(), &request).await?;
    Ok(format!("{}: {}", program.machine.name(), program.argv.join(" ")))
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
    let request = logs::Request { cluster: demo(), node: Some("m02".to_owned()), lines: 2, follow };
    logs::run(&world.context(), &request).await
}

#[tokio::test]
async fn logs_are_shown_by_the_node_or_read_from_its_disk() {
    let world = World::running(&ROLES).await;
    let Logs::Running(program) = show_logs(&world, true).await.unwrap() else { panic!("it runs") };
    assert!(program.argv[2].contains("exec tail -v -n 2 -F "), "{:?}", program.argv);
    let written = program.machine.guest().write("/var/log/flotilla/kubelet.log", 0o600, b"a\nb\nc\n").await;
    written.unwrap();
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
