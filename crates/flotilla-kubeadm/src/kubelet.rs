//! Whether the kubelet can live at all. One that cannot work with its settings ends at once, again and again: whoever
//! waits for what it is to do should not wait for minutes.

use std::time::Duration;

use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, node};
use flotilla_node_api::Unit;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use crate::files::CRI_SOCKET;
use crate::phase::{in_node, run};

/// How often to look, and how many deaths are too many.
const LOOK: Duration = Duration::from_secs(3);
const TOO_MANY: u32 = 5;
/// The pause after a look is so many times as long as the look: a node that takes seconds to answer has better things to do.
const REST: u32 = 9;

/// How many lines of its log are its last words.
const LAST: usize = 10;

/// Starts it, unless it runs.
pub(crate) async fn start(machine: &dyn Machine) -> Result<(), BootstrapError> {
    run(machine, "start the kubelet", Cmd::new(["systemctl", "start", "kubelet"])).await.map(drop)
}

/// Starts it wherever that is possible: what a machine lacks that does not answer, whoever waits for it will say.
pub(crate) async fn start_all<'a>(machines: impl Iterator<Item = &'a dyn Machine>) {
    join_all(machines.map(start)).await;
}

/// The deaths of a machine's kubelet from now on.
pub(crate) struct CrashWatch<'a> {
    machine: &'a dyn Machine,
    /// None until the node has said so once.
    before: Option<u32>,
    next_look: Instant,
}

impl<'a> CrashWatch<'a> {
    pub(crate) async fn from_now(machine: &'a dyn Machine) -> Result<Self, BootstrapError> {
        Ok(Self { machine, before: count(machine).await?, next_look: Instant::now() + LOOK })
    }

    /// An error if there were too many. Looks now and then, however often it is called.
    pub(crate) async fn check(&mut self) -> Result<(), BootstrapError> {
        if Instant::now() < self.next_look {
            return Ok(());
        }
        let begun = Instant::now();
        let now = count(self.machine).await?;
        self.before = self.before.or(now);
        if now.zip(self.before).is_some_and(|(now, before)| now >= before + TOO_MANY) {
            let (node, seen) = (self.machine.name().to_string(), log_tail(self.machine).await);
            return Err(BootstrapError::Crashing { node, seen });
        }
        self.next_look = Instant::now() + pause_after(begun.elapsed());
        Ok(())
    }

    /// Ends with too many deaths, else never.
    pub(crate) async fn too_many(&mut self) -> BootstrapError {
        loop {
            sleep(LOOK).await;
            if let Err(error) = self.check().await {
                return error;
            }
        }
    }
}

fn pause_after(look: Duration) -> Duration {
    LOOK.max(REST * look)
}

/// Makes the kubelet register its node again, if somebody has deleted it: it does so only when it begins.
pub(crate) async fn restart(machine: &dyn Machine) -> Result<(), BootstrapError> {
    run(machine, "restart the kubelet", Cmd::new(["systemctl", "restart", "kubelet"])).await.map(drop)
}

/// How often the kubelet has died by itself since this machine was booted, as far as that can be told.
async fn count(machine: &dyn Machine) -> Result<Option<u32>, BootstrapError> {
    match node::status(machine).await {
        Ok(status) => Ok(Some(status.deaths(&Unit::KUBELET))),
        // It does not count them in a way that we understand, or is too slow to say.
        Err(GuestError::OtherVersion { .. } | GuestError::TimedOut { .. }) => Ok(None),
        Err(error) => Err(in_node("inspect the kubelet", machine)(error)),
    }
}

/// What the kubelet said last, and what became of the containers.
pub(crate) async fn last_words_and_containers(machine: &dyn Machine) -> Vec<String> {
    let mut lines = log_tail(machine).await;
    lines.extend(lines_of(machine, &format!("crictl --runtime-endpoint {CRI_SOCKET} ps -a 2>&1")).await);
    lines
}

/// What the kubelet said last, each thing once, without the traces by which a Go program tells its authors of an end.
async fn log_tail(machine: &dyn Machine) -> Vec<String> {
    let mut lines = Vec::new();
    for line in lines_of(machine, "tail -n 200 /var/log/flotilla/kubelet.log").await {
        if !is_trace(&line) && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.split_off(lines.len().saturating_sub(LAST))
}

fn is_trace(line: &str) -> bool {
    let is_call = line.ends_with(')') && line.split(' ').next().is_some_and(|word| word.contains('('));
    line.is_empty() || line.starts_with(['\t', ' ']) || line.starts_with("goroutine ") || is_call
}

async fn lines_of(machine: &dyn Machine, script: &str) -> Vec<String> {
    let limit = Some(Duration::from_secs(10));
    match machine.guest().run(Cmd { limit, ..Cmd::sh(script) }).await {
        Ok(output) => output.text().lines().map(str::to_owned).collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake::FakeMachine;

    /// A machine whose kubelet has died so often, each time that somebody looks.
    fn dying(deaths: &[u32], log: &'static str) -> FakeMachine {
        let machine = FakeMachine::new(&[], &[("kubelet.log", Ok(log))]);
        machine.set_statuses(deaths, |status, deaths| status.units[1].deaths = *deaths);
        machine
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_that_dies_again_and_again_is_told_with_its_last_words() {
        let log = "\
Flag --max-pods has been deprecated
panic: cannot set feature gate NodeSwap to false, feature is locked to true

goroutine 1 [running]:
k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1.SetDefaults_KubeletConfiguration(0xa66ec926e08, {0x0?, 0x0})
\tk8s.io/kubernetes@v1.37.1/pkg/kubelet/apis/config/v1beta1/defaults.go:70 +0x1394
main.main()
\tk8s.io/kubernetes@v1.37.1/cmd/kubelet/kubelet.go:37 +0x2a
Flag --max-pods has been deprecated
panic: cannot set feature gate NodeSwap to false, feature is locked to true
";
        let machine = dying(&[2, 6, 7], log);
        let started = Instant::now();
        let error = CrashWatch::from_now(&machine).await.unwrap().too_many().await;
        assert_eq!(error.to_string(), "the kubelet on node demo keeps crashing");
        let words = log.lines().take(2);
        assert!(matches!(error, BootstrapError::Crashing { seen, .. } if words.eq(&seen)));
        assert_eq!(started.elapsed(), 2 * LOOK);
    }

    #[test]
    fn a_slow_node_is_looked_at_less_often() {
        assert_eq!(pause_after(Duration::from_millis(20)), LOOK);
        assert_eq!(pause_after(Duration::from_secs(5)), Duration::from_secs(45));
    }

    #[tokio::test(start_paused = true)]
    async fn deaths_of_an_earlier_life_do_not_count_and_looks_are_rare() {
        let machine = dying(&[70, 74], "");
        let mut deaths = CrashWatch::from_now(&machine).await.unwrap();
        for _ in 0..100 {
            deaths.check().await.unwrap();
        }
        assert_eq!(machine.log().len(), 1);
        sleep(LOOK).await;
        deaths.check().await.unwrap();
        assert_eq!(machine.log().len(), 2);
    }
}
