//! One command of flotilla: how long it takes, what it takes of the CPUs, and its steps.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flotilla_spec::ClusterName;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

/// The program under test, with the cluster that all commands are about.
#[derive(Clone)]
pub(super) struct Flotilla {
    pub(super) program: String,
    pub(super) home: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) cluster: ClusterName,
}

/// What a command cost.
pub(super) struct Ran {
    pub(super) seconds: f64,
    /// CPU time of the process itself. Programs that it ran in the node count as the node's.
    pub(super) cpu: f64,
    pub(super) steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) name: String,
    pub(super) seconds: f64,
}

impl Flotilla {
    /// Where the first node has its files.
    pub(super) fn primary(&self) -> PathBuf {
        self.node_folder(self.cluster.as_ref())
    }

    pub(super) fn node_folder(&self, node: &str) -> PathBuf {
        self.home.join("clusters").join(self.cluster.as_ref()).join("nodes").join(node)
    }

    /// The names of so many nodes, as `start --nodes` gives them.
    pub(super) fn nodes(&self, count: u32) -> Vec<String> {
        let cluster = &self.cluster;
        let workers = (2..=count).map(|number| format!("{cluster}-m{number:02}"));
        std::iter::once(cluster.to_string()).chain(workers).collect()
    }

    /// Runs a command to its end, which must be a good one.
    pub(super) fn run(&self, args: &[&str]) -> Result<Ran> {
        let line = format!("flotilla {}", args.join(" "));
        let began = Instant::now();
        let mut child = self.spawn(args).with_context(|| format!("cannot run `{line}`"))?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut output = String::new();
        let mut steps = Steps::default();
        for text in BufReader::new(stdout).lines() {
            let text = text.with_context(|| format!("`{line}` printed no UTF-8"))?;
            steps.see(&text, began.elapsed().as_secs_f64());
            output = output + &text + "\n";
        }
        let cpu = cpu_at_end(&child)?;
        let seconds = began.elapsed().as_secs_f64();
        let status = child.wait()?;
        ensure!(status.success(), "`{line}` failed ({status})\n{output}");
        Ok(Ran { seconds, cpu, steps: steps.done })
    }

    #[expect(clippy::disallowed_methods, reason = "the product's wrapper tells no CPU time")]
    fn spawn(&self, args: &[&str]) -> std::io::Result<Child> {
        Command::new(&self.program)
            .args(args)
            .args(["-p", self.cluster.as_ref()])
            .env("FLOTILLA_HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
    }
}

/// Steps reported by events as they come in. Other lines are no steps.
#[derive(Default)]
struct Steps {
    begun: BTreeMap<String, f64>,
    done: Vec<Step>,
}

impl Steps {
    fn see(&mut self, line: &str, now: f64) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let Some(name) = event["data"]["name"].as_str().map(str::to_owned) else { return };
        if event["type"] == "io.k8s.sigs.minikube.step" {
            self.begun.insert(name, now);
        } else if event["type"] == "dev.flotilla.step.done" {
            let seconds = now - self.begun.remove(&name).unwrap_or(now);
            self.done.push(Step { name, seconds });
        }
    }
}

/// Waits for the end of a process, and asks what it took while it can still be asked.
fn cpu_at_end(child: &Child) -> Result<f64> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a child has a pid")?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    // The kernel counts hundredths of a second here on every architecture that we run on.
    Ok(f64::from(cpu_of(&stat).context("/proc/PID/stat has times")?) / 100.0)
}

/// Time in user and in system mode, in ticks: fields 14 and 15 (`proc_pid_stat(5)`).
fn cpu_of(stat: &str) -> Option<u32> {
    // The name may hold anything, brackets too. What comes after it is field 3.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').skip(14 - 3).take(2).map(|ticks| ticks.parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "42 (a ) b) Z 1 42 42 0 -1 4 0 0 0 0 30 12 7 7 20 0 1 0 100";
        assert_eq!(cpu_of(stat), Some(42));
        assert_eq!(cpu_of("no line of that kind"), None);
    }

    #[test]
    fn a_step_lasts_from_its_event_to_that_of_its_end() {
        let mut steps = Steps::default();
        steps.see(r#"{"type":"io.k8s.sigs.minikube.step","data":{"name":"network"}}"#, 1.0);
        steps.see("no event", 2.0);
        steps.see(r#"{"type":"dev.flotilla.step.done","data":{"name":"network"}}"#, 3.5);
        let [step] = steps.done.as_slice() else { panic!("one step") };
        assert_eq!(step.name, "network");
        assert!((step.seconds - 2.5).abs() < 1e-9, "{}", step.seconds);
    }
}
