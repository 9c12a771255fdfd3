//! The cluster as its API shows it. After the first answer nothing is asked: changes are watched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;
use flotilla_core::cluster::url;
use flotilla_engine::store::ClusterStore;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde::de::DeserializeOwned;

use super::command::Flotilla;
use super::pod;

/// Between two looks at what cannot be watched. Milestones are as exact as this.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The node is on this host: one that is up answers in less.
const CONNECT: Duration = Duration::from_millis(300);

/// Waits until the API gives what every cluster has.
pub(super) async fn serves(flotilla: &Flotilla) -> Client {
    let client = loop {
        if let Some(client) = client(flotilla).await {
            break client;
        }
        tokio::time::sleep(LOOK).await;
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    while !matches!(namespaces.get_metadata_opt(pod::NAMESPACE).await, Ok(Some(_))) {
        tokio::time::sleep(LOOK).await;
    }
    client
}

/// A client, once the cluster has an address and an administrator.
///
/// From a file in the node, which exists before the API serves; the user's kubeconfig is written later.
pub(super) async fn client(flotilla: &Flotilla) -> Option<Client> {
    let cluster = ClusterStore::new(&flotilla.home).load(&flotilla.cluster).ok()??;
    let file = flotilla.primary().join("upper/etc/kubernetes/super-admin.conf");
    let kubeconfig = Kubeconfig::read_from(file).ok()?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.ok()?;
    // The file's own address is a name that only nodes know.
    config.cluster_url = url(cluster.api()).parse().ok()?;
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT);
    // A watch may be silent for long.
    config.read_timeout = None;
    config.default_retry = false;
    Client::try_from(config).ok()
}

/// Waits until these nodes say that they are ready, and said so after `since`: one that was stopped looks ready too.
pub(super) async fn nodes_are_ready(client: &Client, nodes: &[String], since: Timestamp) {
    let mut missing: BTreeSet<&str> = nodes.iter().map(String::as_str).collect();
    // A heartbeat has whole seconds, and all of it may have happened in one.
    let since = since.as_second();
    let see = |node: Node| {
        let name = node.name_any();
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let fresh = conditions.into_iter().any(|condition| {
            condition.type_ == "Ready"
                && condition.status == "True"
                && condition.last_heartbeat_time.is_some_and(|time| time.0.as_second() >= since)
        });
        if fresh {
            missing.remove(name.as_str());
        }
        missing.is_empty().then_some(())
    };
    follow(&Api::all(client.clone()), &WatchParams::default(), see).await;
}

/// Asks for a pod on every node, and waits until as many nodes have one that runs.
pub(super) async fn pods_run_on(client: &Client, nodes: usize, image: &str) -> Result<()> {
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), pod::NAMESPACE);
    sets.create(&PostParams::default(), &pod::on_every_node(image)).await?;
    let mut running = BTreeSet::new();
    let see = |pod: Pod| {
        if pod.status?.phase? == "Running" {
            running.insert(pod.spec?.node_name?);
        }
        (running.len() == nodes).then_some(())
    };
    let ours = WatchParams::default().labels(&format!("app={}", pod::NAME));
    follow(&Api::<Pod>::namespaced(client.clone(), pod::NAMESPACE), &ours, see).await;
    Ok(())
}

/// Makes the pod as soon as it may be made, and waits until it runs.
pub(super) async fn pod_runs(client: &Client, image: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), pod::NAMESPACE);
    follow(&accounts, &WatchParams::default().fields("metadata.name=default"), Some).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), pod::NAMESPACE);
    let object = pod::object(image);
    loop {
        match pods.create(&PostParams::default(), &object).await {
            Ok(_) => break,
            // The admission has not seen the account yet.
            Err(kube::Error::Api(status)) if status.code == 403 => tokio::time::sleep(LOOK).await,
            Err(error) => return Err(error.into()),
        }
    }
    let running = |pod: Pod| (pod.status?.phase? == "Running").then_some(());
    let ours = WatchParams::default().fields(&format!("metadata.name={}", pod::NAME));
    follow(&pods, &ours, running).await;
    Ok(())
}

/// The containers of each pod.
pub(super) struct Containers(BTreeMap<String, BTreeSet<String>>);

pub(super) async fn containers(client: &Client) -> Result<Containers> {
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(Containers(pods.iter().map(|pod| (full_name(pod), running_containers(pod))).collect()))
}

/// Waits until every pod that was there runs again, in new containers. Tells each as it is back.
pub(super) async fn pods_are_back(client: &Client, old: Containers, mut back: impl FnMut(&str)) {
    let Containers(mut missing) = old;
    let see = |pod: Pod| {
        let (name, now) = (full_name(&pod), running_containers(&pod));
        let wanted = pod.spec.map_or(0, |spec| spec.containers.len());
        if missing.get(&name).is_some_and(|old| now.len() == wanted && now.is_disjoint(old)) {
            missing.remove(&name);
            back(&name);
        }
        missing.is_empty().then_some(())
    };
    follow(&Api::all(client.clone()), &WatchParams::default(), see).await;
}

/// Watches until what was looked for is seen.
///
/// An API server that is just starting may refuse or break off a watch: it is started again, from the current state.
async fn follow<K, T>(api: &Api<K>, what: &WatchParams, mut see: impl FnMut(K) -> Option<T>) -> T
where
    K: Clone + Debug + DeserializeOwned,
{
    loop {
        if let Ok(events) = api.watch(what, "0").await {
            let mut events = std::pin::pin!(events);
            while let Some(Ok(event)) = events.next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                    && let Some(seen) = see(object)
                {
                    return seen;
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn running_containers(pod: &Pod) -> BTreeSet<String> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let running = statuses
        .into_iter()
        .flatten()
        .filter(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()));
    running.filter_map(|container| container.container_id.clone()).collect()
}
