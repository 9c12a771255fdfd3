//! Freezing a node's containers, and thawing them.
//!
//! The kubelet goes first: it would take a frozen container for a dead one. A file in the node says that it is
//! paused; it is there before anything is frozen and goes after everything is thawed, so that a killed `pause` or
//! `unpause` is seen and can be repeated.

use flotilla_core::{BootstrapError, Cmd, Machine};

use crate::files::PAUSED;
use crate::kubelet;
use crate::phase::{in_node, run};

/// What the runtime says of a container's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Running,
    Paused,
}

impl Task {
    fn status(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Paused => "PAUSED",
        }
    }
}

/// Stops the kubelet and freezes the containers of these namespaces. Gives how many were running.
pub(crate) async fn pause(
    machine: &dyn Machine,
    namespaces: Option<&[String]>,
) -> Result<usize, BootstrapError> {
    let mark = machine.guest().write(PAUSED, 0o644, b"").await;
    mark.map_err(in_node("record that the node is paused", machine))?;
    run(machine, "stop the kubelet", Cmd::new(["systemctl", "stop", "kubelet"])).await?;
    let running = containers(machine, namespaces, Task::Running).await?;
    each(machine, "freeze the containers", "pause", &running).await?;
    Ok(running.len())
}

pub(crate) async fn is_paused(machine: &dyn Machine) -> bool {
    matches!(machine.guest().read(PAUSED).await, Ok(Some(_)))
}

/// Thaws the frozen containers of these namespaces and starts the kubelet. Gives how many were frozen.
///
/// With containers left that are still frozen, the node stays marked as paused.
pub(crate) async fn unpause(
    machine: &dyn Machine,
    namespaces: Option<&[String]>,
) -> Result<usize, BootstrapError> {
    let frozen = containers(machine, namespaces, Task::Paused).await?;
    each(machine, "unfreeze the containers", "resume", &frozen).await?;
    kubelet::start(machine).await?;
    if namespaces.is_none() || containers(machine, None, Task::Paused).await?.is_empty() {
        run(machine, "record that the node is not paused", Cmd::new(["rm", "-f", PAUSED])).await?;
    }
    Ok(frozen.len())
}

/// The containers of pods in these namespaces (in all of them if none is named) whose task is in that state. The
/// sandboxes, which do nothing, are not among them.
async fn containers(
    machine: &dyn Machine,
    namespaces: Option<&[String]>,
    task: Task,
) -> Result<Vec<String>, BootstrapError> {
    let listing = ["ctr", "-n", "k8s.io", "containers", "list", "-q"].map(str::to_owned);
    let listing = Cmd::new(listing.into_iter().chain(filters(namespaces)));
    let chosen = run(machine, "list the containers", listing).await?.text();
    let tasks = Cmd::new(["ctr", "-n", "k8s.io", "tasks", "list"]);
    let tasks = run(machine, "list the containers' processes", tasks).await?.text();
    Ok(in_state(&chosen, &tasks, task))
}

/// containerd's filters: all parts of one must hold, and any one is enough.
fn filters(namespaces: Option<&[String]>) -> Vec<String> {
    const CONTAINER: &str = r#"labels."io.cri-containerd.kind"==container"#;
    let in_namespace =
        |name: &String| format!(r#"{CONTAINER},labels."io.kubernetes.pod.namespace"=="{name}""#);
    match namespaces {
        None | Some([]) => vec![CONTAINER.to_owned()],
        Some(names) => names.iter().map(in_namespace).collect(),
    }
}

/// Those of the chosen containers that are in a state, out of the table of `ctr tasks list`.
fn in_state(chosen: &str, tasks: &str, task: Task) -> Vec<String> {
    let chosen: Vec<_> = chosen.lines().collect();
    let rows = tasks.lines().filter_map(|row| {
        let mut columns = row.split_whitespace();
        Some((columns.next()?, columns.nth(1)?))
    });
    rows.filter(|(id, status)| *status == task.status() && chosen.contains(id))
        .map(|(id, _)| id.to_owned())
        .collect()
}

/// One `ctr` per container: it takes only one. All of them run from a single shell.
async fn each(
    machine: &dyn Machine,
    action: &'static str,
    verb: &str,
    containers: &[String],
) -> Result<(), BootstrapError> {
    if containers.is_empty() {
        return Ok(());
    }
    let script = format!(r#"for id; do ctr -n k8s.io tasks {verb} "$id" || exit; done"#);
    let argv = ["sh", "-c", &script, "sh"].map(str::to_owned);
    run(machine, action, Cmd::new(argv.into_iter().chain(containers.iter().cloned()))).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake::FakeMachine;

    const TASKS: &str = "TASK PID STATUS\naaa 101 RUNNING\nbbb 102 PAUSED\n";

    #[test]
    fn only_the_chosen_containers_in_that_state_are_touched() {
        let tasks = "\
TASK    PID     STATUS
aaa     101     RUNNING
bbb     102     PAUSED
ccc     103     STOPPED
ddd     104     RUNNING
";
        let chosen = "aaa\nbbb\nccc\n";
        assert_eq!(in_state(chosen, tasks, Task::Running), ["aaa"]);
        assert_eq!(in_state(chosen, tasks, Task::Paused), ["bbb"]);
        assert_eq!(in_state("", tasks, Task::Running), [] as [String; 0]);
    }

    #[test]
    fn without_namespaces_every_container_is_meant() {
        assert_eq!(filters(None), [r#"labels."io.cri-containerd.kind"==container"#]);
    }

    #[test]
    fn any_of_the_namespaces_is_meant() {
        let names = ["kube-system".to_owned(), "istio-operator".to_owned()];
        assert_eq!(
            filters(Some(&names)),
            [
                r#"labels."io.cri-containerd.kind"==container,labels."io.kubernetes.pod.namespace"=="kube-system""#,
                r#"labels."io.cri-containerd.kind"==container,labels."io.kubernetes.pod.namespace"=="istio-operator""#,
            ]
        );
    }

    #[tokio::test]
    async fn the_kubelet_stops_before_anything_is_frozen() {
        let machine =
            FakeMachine::new(&[], &[("containers list", Ok("aaa\nbbb")), ("tasks list", Ok(TASKS))]);
        assert_eq!(pause(&machine, None).await.unwrap(), 1);
        assert!(machine.file(PAUSED).is_some());
        insta::assert_snapshot!(machine.log().join("\n"), @r#"
        put /run/flotilla/paused 644
        systemctl stop kubelet
        ctr -n k8s.io containers list -q labels."io.cri-containerd.kind"==container
        ctr -n k8s.io tasks list
        sh -c for id; do ctr -n k8s.io tasks pause "$id" || exit; done sh aaa
        "#);
    }

    #[tokio::test]
    async fn everything_is_thawed_before_the_kubelet_starts() {
        let script = [("containers list", Ok("aaa\nbbb")), ("tasks list", Ok(TASKS))];
        let machine = FakeMachine::new(&[(PAUSED, b"")], &script);
        assert_eq!(unpause(&machine, None).await.unwrap(), 1);
        assert_eq!(machine.file(PAUSED), None);
        insta::assert_snapshot!(machine.log()[2..].join("\n"), @r#"
        sh -c for id; do ctr -n k8s.io tasks resume "$id" || exit; done sh bbb
        systemctl start kubelet
        rm -f /run/flotilla/paused
        "#);
    }

    #[tokio::test]
    async fn a_node_with_frozen_containers_in_other_namespaces_stays_paused() {
        let script = [
            ("pod.namespace", Ok("")),
            ("tasks list", Ok(TASKS)),
            ("containers list", Ok("bbb")),
            ("tasks list", Ok(TASKS)),
        ];
        let machine = FakeMachine::new(&[(PAUSED, b"")], &script);
        assert_eq!(unpause(&machine, Some(&["default".to_owned()])).await.unwrap(), 0);
        assert!(machine.file(PAUSED).is_some());
    }
}
