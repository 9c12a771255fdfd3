//! What tools for minikube find in `MINIKUBE_HOME`, and commands of minikube.

use serde_json::Value;

use super::world::World;

/// The audit log of the world, a value a line.
fn audit(world: &World) -> Vec<Value> {
    let text = world.read("tools/.minikube/logs/audit.json").unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn commands_that_change_something_are_in_the_audit_log() {
    let world = World::with_tools();
    for line in
        ["start -p demo --user=testUser", "status -p demo", "stop -p demo", "stop -p demo --skip-audit"]
    {
        world.run(line);
    }
    world.run("node delete nowhere -p demo -- secret");
    let lines = audit(&world);
    let data: Vec<_> = lines.iter().map(|line| &line["data"]).collect();
    assert_eq!(data.len(), 3, "{lines:?}");
    assert_eq!(lines[0]["type"], "io.k8s.sigs.minikube.audit");
    assert_eq!(
        (&data[0]["command"], &data[0]["args"], &data[0]["user"], &data[0]["profile"]),
        (&"start".into(), &"-p demo --user=testUser".into(), &"testUser".into(), &"demo".into())
    );
    assert_eq!((&data[1]["user"], &data[1]["exitcode"]), (&"tester".into(), &"0".into()));
    assert_eq!((&data[2]["command"], &data[2]["exitcode"]), (&"node".into(), &"85".into()));
    assert_eq!(data[2]["args"], "delete nowhere -p demo");
}

#[test]
fn a_command_with_a_log_directory_writes_a_file_there_however_it_ends() {
    let world = World::with_tools();
    world.run("start");
    for line in ["--log_dir HOME/logs stop", "--log_dir HOME/logs stop", "pause --log_dir HOME/logs"] {
        world.run(line);
    }
    let names = world.names("logs");
    let count = |command: &str| names.iter().filter(|name| name.starts_with(command)).count();
    assert_eq!((count("minikube_stop_"), count("minikube_pause_"), names.len()), (1, 1, 2), "{names:?}");
    let name = names.iter().find(|name| name.starts_with("minikube_pause_")).unwrap();
    let text = world.read(&format!("logs/{name}")).unwrap();
    world.run("pause --log_file HOME/logs/own");
    assert!(world.read("logs/own").unwrap().contains("flotilla pause --log_file"));
    let ran = world.run("pause --log_file HOME/nowhere/own");
    assert!(ran.stderr.contains("warning: cannot write a log to HOME/nowhere/own"), "{ran}");
    assert!(text.contains("error[GUEST_NOT_RUNNING]") && text.contains("exit status 83"), "{text}");
}

#[test]
fn logs_have_the_last_commands_the_last_start_and_the_kernel() {
    let world = World::with_tools();
    for line in ["start -p demo", "stop -p demo"] {
        assert_eq!(world.run(line).status, 0);
    }
    let shown = world.run("logs -p demo");
    for words in
        ["==> Audit <==", " tester demo: start -p demo (0)", "==> Last Start <==", "exit status 0", "Linux"]
    {
        assert!(shown.stdout.contains(words), "{words}: {shown}");
    }
    let ran = world.run("logs -p demo --file HOME/logs.txt");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{ran}");
    let lines =
        |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&world.read("logs.txt").unwrap()), lines(&shown.stdout));
    assert!(!world.run("logs demo -p demo").stdout.contains("Audit"), "only the node's logs");
    // Others may have put a link where the file is to be.
    world.write("others", "theirs");
    world.link("link.txt", "others");
    assert_eq!(world.run("logs -p demo --file HOME/link.txt").status, 0);
    assert_eq!(world.read("others").unwrap(), "theirs");
    assert_eq!(lines(&world.read("link.txt").unwrap()).len(), lines(&shown.stdout).len());
    assert_ne!(world.run("logs -p demo --file /dev/null").status, 0);
}

/// The active profiles of `profile list -o json`.
fn active(world: &World) -> Vec<String> {
    let listed: Value = serde_json::from_str(&world.run("profile list -o json").stdout).unwrap();
    let valid = listed["valid"].as_array().unwrap().iter();
    valid.filter(|it| it["Active"] == true).map(|it| it["Name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_selected_profile_is_the_cluster_of_commands_without_a_name() {
    let world = World::after(&["start", "start -p demo"]);
    assert_eq!((active(&world), world.run("profile").stdout), (vec!["flotilla".into()], "flotilla\n".into()));
    assert_eq!(world.run("profile demo").status, 0);
    assert_eq!((active(&world), world.run("profile").stdout), (vec!["demo".into()], "demo\n".into()));
    let table = world.run("profile list").stdout;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (6, lines[5], lines[5]), "{table}");
    assert!(world.run("stop").stdout.starts_with("stopped cluster demo"));
    let hint = world.run("start -p flotilla --nodes 3").stderr;
    assert!(
        hint.contains("`flotilla node add -p flotilla`"),
        "a command without a name is about demo: {hint}"
    );
    let stopped = world.run("stop -p flotilla").stdout;
    assert!(stopped.contains("`flotilla start -p flotilla`"), "{stopped}");
    let started = world.run("start -p flotilla").stdout;
    assert!(started.contains("flotilla delete -p flotilla"), "{started}");
    let unknown = world.run("profile lis");
    assert_eq!(unknown.status, 0, "{unknown}");
    assert!(unknown.stderr.contains("warning: cluster lis does not exist"), "{unknown}");
    assert!(!world.run("list").stdout.contains("lis "));
    world.run("delete");
    assert_eq!(active(&world), ["flotilla"], "a deleted cluster is not selected");
    world.run("profile flotilla");
    world.run("profile default");
    assert_eq!(world.run("profile").stdout, "flotilla\n");
}

#[test]
fn tools_find_a_file_of_each_profile() {
    const FILE: &str = "tools/.minikube/profiles/demo/config.json";
    let world = World::with_tools();
    world.run("start -p demo --extra-config=apiserver.enable-admission-plugins=NamespaceAutoProvision");
    let config = |world: &World| serde_json::from_str::<Value>(&world.read(FILE).unwrap()).unwrap();
    let found = config(&world);
    assert_eq!((&found["Name"], &found["APIServerPort"]), (&"demo".into(), &found["Nodes"][0]["Port"]));
    let kubernetes = &found["KubernetesConfig"];
    assert_eq!(
        (&kubernetes["ClusterName"], &kubernetes["ServiceCIDR"]),
        (&"demo".into(), &"10.96.0.0/12".into())
    );
    let option = &kubernetes["ExtraOptions"][0];
    assert_eq!(
        (&option["Component"], &option["Key"], &option["Value"]),
        (&"apiserver".into(), &"enable-admission-plugins".into(), &"NamespaceAutoProvision".into())
    );
    world.run("node add -p demo");
    assert_eq!(config(&world)["Nodes"].as_array().unwrap().len(), 2);
    world.run("node add -p demo --skip-audit");
    assert_eq!(config(&world)["Nodes"].as_array().unwrap().len(), 3, "only the audit log is skipped");
    world.run("delete -p demo");
    assert_eq!((world.read(FILE), world.names("tools/.minikube/profiles").len()), (None, 0));
}

#[test]
fn a_profile_of_minikube_itself_stays_as_it_is() {
    const FILE: &str = "tools/.minikube/profiles/demo/config.json";
    let world = World::with_tools();
    world.make_directory("tools/.minikube/profiles/demo");
    world.write(FILE, r#"{"Name":"demo","Driver":"docker"}"#);
    for line in ["start -p demo", "node add -p demo", "delete -p demo"] {
        assert_eq!(world.run(line).status, 0, "{line}");
        assert_eq!(world.read(FILE).unwrap(), r#"{"Name":"demo","Driver":"docker"}"#, "{line}");
    }
}

/// As a script has them whose variables are empty.
#[test]
fn an_empty_driver_and_version_are_the_default_ones() {
    let world = World::with_tools();
    let ran = world.run("start -p demo --driver= --kubernetes-version= --container-runtime= --cni=");
    assert_eq!(ran.status, 0, "{ran}");
    let ran = world.run("node add -p demo --kubernetes-version=");
    assert_eq!(ran.status, 0, "{ran}");
}

/// The binary under the name `minikube`.
#[test]
fn called_minikube_its_cluster_is_minikube() {
    let world = World::with_tools();
    assert_eq!(world.run_as("minikube", "start").status, 0);
    assert!(world.run("get clusters").stdout.contains("minikube"));
    assert_eq!(world.run_as("/usr/bin/minikube-linux-amd64", "profile").stdout, "minikube\n");
    let answer = world.run_as("minikube", "stop --schedule 5m").stderr;
    assert!(answer.contains("type `sleep 5m && flotilla stop -p minikube`"), "{answer}");
}
