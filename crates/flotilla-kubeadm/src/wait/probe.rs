//! Questions that are asked inside nodes: of programs whose state the API shows late, or as it was before a restart.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::{BootstrapError, Cmd, ExecOutput, GuestError, Machine};
use flotilla_spec::{ClusterSpec, Component};
use futures::future::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use crate::patience::Patience;

/// So many nodes are asked at the same time.
const AT_ONCE: usize = 8;
/// A question costs a process in the node.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after a question is so many times as long as the question took: else the questions use the CPU time that a slow
/// node needs to get ready.
const REST: u32 = 3;
/// How long a question may take in a node that hardly gets any CPU time.
const LIMIT: Duration = Duration::from_secs(30);
/// The same for its answer, which comes from the node itself.
const ANSWER: &str = "10";

const LOOPBACK: &str = "127.0.0.1";
/// Each with its port, by kubeadm's default.
const CONTROLLERS: [(Component, u16); 2] =
    [(Component::ControllerManager, 10257), (Component::Scheduler, 10259)];
/// What kube-proxy measures, by kubeadm's default.
const KUBE_PROXY: &str = "http://127.0.0.1:10249/metrics";
/// How often it has written its rules, for each family of addresses.
const WRITTEN: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count";

/// A program that is run in a node, and what its success must have printed.
pub(super) struct Probe {
    /// What is asked, for people.
    what: &'static str,
    cmd: Cmd,
    is_answer: fn(&str) -> bool,
}

impl Probe {
    /// Controller manager and scheduler are healthy.
    pub(super) fn of_controllers(spec: &ClusterSpec) -> Self {
        let urls = CONTROLLERS.map(|(component, port)| {
            let [address, port] = [("bind-address", LOOPBACK.to_owned()), ("secure-port", port.to_string())]
                .map(|(key, default)| setting(spec, component, key).map_or(default, str::to_owned));
            let is_any = address.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
            format!("https://{}:{port}/healthz", if is_any { LOOPBACK } else { &address })
        });
        let words = ["--insecure", "--fail-early"].map(str::to_owned).into_iter().chain(urls);
        Self { what: "controllers and scheduler", cmd: curl(words), is_answer: |text| text == "okok" }
    }

    /// kube-proxy has written its rules at least once.
    pub(super) fn of_kube_proxy() -> Self {
        Self { what: "kube-proxy", cmd: curl([KUBE_PROXY.to_owned()]), is_answer: has_rules }
    }

    /// The cluster's DNS answers, by any of these servers. That a name does not exist is an answer, too: a Corefile may be
    /// the user's own.
    pub(super) fn of_dns(servers: &[String], domain: &str) -> Self {
        let script = "for server; do
                 answer=$(busybox nslookup -type=a -timeout=1 \"$0\" \"$server\" 2>&1) && exit
                 case $answer in *NXDOMAIN*) exit 0 ;; esac
             done
             echo \"$answer\" >&2
             exit 1";
        let name = format!("kubernetes.default.svc.{domain}");
        let words = ["sh", "-c", script, &name].map(str::to_owned).into_iter().chain(servers.iter().cloned());
        Self { what: "DNS", cmd: Cmd::new(words).within(LIMIT), is_answer: |_| true }
    }

    /// Asks in each machine until it has given the answer once.
    pub(super) async fn answers_in_all(
        &self,
        machines: &[Arc<dyn Machine>],
        patience: &Patience,
    ) -> Result<(), BootstrapError> {
        let mut asked = Vec::new();
        for machine in machines {
            asked.push(self.answers(machine.as_ref(), patience).boxed());
        }
        futures::stream::iter(asked).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn answers(&self, machine: &dyn Machine, patience: &Patience) -> Result<(), BootstrapError> {
        let patience = patience.anew();
        loop {
            let begun = Instant::now();
            let Some(problem) = self.ask(machine).await? else { return Ok(()) };
            patience.pause_for(pause_after(begun.elapsed()), &[problem]).await?;
        }
    }

    /// Asks once. Gives what is wrong, if something is.
    pub(super) async fn ask(&self, machine: &dyn Machine) -> Result<Option<String>, BootstrapError> {
        let problem = match machine.guest().run(self.cmd.clone()).await {
            Ok(output) if (self.is_answer)(&output.text()) => return Ok(None),
            Ok(ExecOutput { .. }) => "not ready yet".to_owned(),
            Err(GuestError::Interrupted) => return Err(BootstrapError::Interrupted),
            Err(GuestError::Failed { tail, exit, .. }) => {
                tail.last().cloned().unwrap_or_else(|| exit.to_string())
            }
            Err(error) => error.to_string(),
        };
        Ok(Some(format!("{} on node {}: {problem}", self.what, machine.name())))
    }
}

fn pause_after(question: Duration) -> Duration {
    PAUSE.max(REST * question)
}

/// Whether kube-proxy has written its rules for addresses of version 4, which services have: it has measured how long that
/// took. Its health does not tell: it says that it is well, and updated, when it has only begun.
fn has_rules(metrics: &str) -> bool {
    let counts = metrics.lines().filter_map(|line| line.strip_prefix(WRITTEN)?.rsplit_once(' '));
    counts.into_iter().any(|(labels, count)| !labels.contains("IPv6") && count != "0")
}

fn curl(words: impl IntoIterator<Item = String>) -> Cmd {
    let flags = ["curl", "--silent", "--show-error", "--fail", "--max-time", ANSWER].map(str::to_owned);
    Cmd::new(flags.into_iter().chain(words)).within(LIMIT)
}

/// The last value of a component's option.
pub(super) fn setting<'a>(spec: &'a ClusterSpec, component: Component, key: &str) -> Option<&'a str> {
    let options = spec.extra_config.iter().rev();
    let found = options.into_iter().find(|option| option.component() == component && option.key() == key);
    found.map(flotilla_spec::ExtraOption::value)
}

#[cfg(test)]
mod tests;
