//! A Kubernetes that is a few files in the machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_engine::event::Outcome;
use flotilla_engine::port::{
    ApiAccess, BootstrapError, Bootstrapper, Cmd, Condition, Drain, ExecError, KubernetesState, Machine,
};
use flotilla_engine::{Cluster, Node};
use flotilla_spec::NodeName;

use super::Calls;

/// On disk, as kubeadm has it: from the first start of the API on there is a way to it.
const ADMIN: &str = "/etc/kubernetes/admin.conf";
/// A worker stays a member of its cluster.
const JOINED: &str = "/var/lib/joined";
/// In memory: a machine that was off has no Kubernetes running.
const API: &str = "/run/api";
const COMPLETE: &str = "/run/complete";
const PAUSED: &str = "/run/paused";

/// A bootstrapper that refuses what a real one could not do either: to complete a cluster whose API is silent, to
/// wait for one that is not complete.
#[derive(Debug, Default)]
pub struct FakeBootstrapper {
    calls: Calls,
}

impl FakeBootstrapper {
    pub fn new(calls: &Calls) -> Self {
        Self { calls: calls.clone() }
    }
}

async fn state(machine: &dyn Machine) -> Result<KubernetesState, ExecError> {
    let has = async |path| Ok::<_, ExecError>(machine.exec().get(path).await?.is_some());
    Ok(match () {
        () if has(PAUSED).await? => KubernetesState::Paused,
        () if has(COMPLETE).await? => KubernetesState::Complete,
        () if has(API).await? => KubernetesState::Partial,
        () => KubernetesState::Silent,
    })
}

/// Makes a file, if it is not there.
async fn mark(machine: &dyn Machine, path: &str) -> Result<Outcome, BootstrapError> {
    let failed = |source| BootstrapError::Node { action: "mark", node: machine.name().to_string(), source };
    if machine.exec().get(path).await.map_err(failed)?.is_some() {
        return Ok(Outcome::Kept);
    }
    machine.exec().put(path, 0o600, b"").await.map_err(failed)?;
    Ok(Outcome::Done)
}

#[async_trait]
impl Bootstrapper for FakeBootstrapper {
    /// A fault here is an API that could not be asked.
    async fn observe(&self, _: &Cluster, _: &Node, machine: &dyn Machine) -> KubernetesState {
        let Ok(call) = self.calls.begin("observe".to_owned()).await else { return KubernetesState::Silent };
        let seen = state(machine).await.unwrap_or(KubernetesState::Silent);
        call.end().map_or(KubernetesState::Silent, |()| seen)
    }

    async fn start_api(
        &self,
        _: &Cluster,
        node: &Node,
        machine: &dyn Machine,
    ) -> Result<Outcome, BootstrapError> {
        let call = self.calls.begin(format!("start-api {}", node.spec.name)).await?;
        mark(machine, ADMIN).await?;
        let outcome = mark(machine, API).await?;
        call.end()?;
        Ok(outcome)
    }

    async fn complete(
        &self,
        _: &Cluster,
        node: &Node,
        machine: &dyn Machine,
    ) -> Result<Outcome, BootstrapError> {
        let call = self.calls.begin(format!("complete {}", node.spec.name)).await?;
        if state(machine).await.unwrap_or(KubernetesState::Silent) == KubernetesState::Silent {
            return Err(timed_out("the API's first answer"));
        }
        let outcome = mark(machine, COMPLETE).await?;
        call.end()?;
        Ok(outcome)
    }

    async fn has_joined(&self, machine: &dyn Machine) -> bool {
        matches!(machine.exec().get(JOINED).await, Ok(Some(_)))
    }

    async fn join(
        &self,
        _: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        primary: &dyn Machine,
    ) -> Result<Outcome, BootstrapError> {
        let call = self.calls.begin(format!("join {}", node.spec.name)).await?;
        if state(primary).await.unwrap_or(KubernetesState::Silent) != KubernetesState::Complete {
            return Err(timed_out("the API's answer to a node that joins"));
        }
        let outcome = mark(machine, JOINED).await?;
        call.end()?;
        Ok(outcome)
    }

    async fn drain(
        &self,
        _: &Cluster,
        node: &NodeName,
        _: &dyn Machine,
        _: Drain,
    ) -> Result<(), BootstrapError> {
        Ok(self.calls.begin(format!("drain {node}")).await?.end()?)
    }

    async fn forget(&self, _: &Cluster, node: &NodeName, _: &dyn Machine) -> Result<(), BootstrapError> {
        Ok(self.calls.begin(format!("forget {node}")).await?.end()?)
    }

    async fn wait(
        &self,
        _: &Cluster,
        machine: &dyn Machine,
        _: &[Arc<dyn Machine>],
        conditions: &BTreeSet<Condition>,
        _: Duration,
    ) -> Result<(), BootstrapError> {
        let names: Vec<_> = conditions.iter().map(|condition| condition.name()).collect();
        let call = self.calls.begin(format!("wait {}", names.join(","))).await?;
        if state(machine).await.unwrap_or(KubernetesState::Silent) != KubernetesState::Complete {
            return Err(timed_out("all that was waited for"));
        }
        Ok(call.end()?)
    }

    async fn access(
        &self,
        cluster: &Cluster,
        machine: &dyn Machine,
    ) -> Result<Option<ApiAccess>, BootstrapError> {
        let call = self.calls.begin("access".to_owned()).await?;
        let made = machine.exec().get(ADMIN).await.is_ok_and(|file| file.is_some());
        call.end()?;
        Ok(made.then(|| ApiAccess {
            server: cluster.api_url(),
            ca_pem: b"ca".to_vec(),
            client_cert_pem: b"certificate".to_vec(),
            client_key_pem: b"key".to_vec(),
        }))
    }

    async fn pause(&self, machine: &dyn Machine, _: Option<&[String]>) -> Result<usize, BootstrapError> {
        let call = self.calls.begin("pause".to_owned()).await?;
        let outcome = mark(machine, PAUSED).await?;
        call.end()?;
        Ok(usize::from(outcome == Outcome::Done))
    }

    async fn unpause(&self, machine: &dyn Machine, _: Option<&[String]>) -> Result<usize, BootstrapError> {
        let call = self.calls.begin("unpause".to_owned()).await?;
        let done = machine.exec().run(Cmd::new(["rm", "-f", PAUSED])).await;
        done.map_err(|source| BootstrapError::Node {
            action: "unpause",
            node: machine.name().to_string(),
            source,
        })?;
        call.end()?;
        Ok(1)
    }
}

fn timed_out(what: &str) -> BootstrapError {
    BootstrapError::TimedOut { what: what.to_owned(), limit: Duration::ZERO, seen: Vec::new() }
}
