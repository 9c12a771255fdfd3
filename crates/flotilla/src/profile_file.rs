//! `profiles/NAME/config.json` below `MINIKUBE_HOME`: where tools for minikube read what a cluster is.

use std::io;

use flotilla_core::Cluster;
use flotilla_engine::store::ClusterStore;
use flotilla_spec::{ClusterName, Role};
use serde_json::{Value, json};

use crate::owned::Directory;
use crate::settings::Settings;

const FILE: &str = "config.json";
/// The key that says which state directory a file is about. Files without it are minikube's: they are neither replaced nor
/// removed, since minikube finds its own cluster by them.
const HOME: &str = "FlotillaHome";

/// Writes the file of each cluster, and removes those of clusters that are gone. Only if there is a `MINIKUBE_HOME`. It
/// fails no command.
pub(crate) fn synchronise(settings: &Settings, store: &ClusterStore) {
    if settings.minikube_home.is_some() {
        let _ = try_synchronise(settings, store);
    }
}

fn try_synchronise(settings: &Settings, store: &ClusterStore) -> io::Result<()> {
    let names = store.names().map_err(io::Error::other)?;
    let profiles = settings.minikube_directory()?.below("profiles")?;
    for name in &names {
        // One that cannot be read keeps the file that it has.
        let Ok(Some(cluster)) = store.load(name) else { continue };
        write(settings, &profiles.below(name.as_ref())?, &cluster)?;
    }
    for name in profiles.names()? {
        if name.parse::<ClusterName>().is_ok_and(|name| !names.contains(&name)) {
            remove(settings, &profiles, &name)?;
        }
    }
    Ok(())
}

fn write(settings: &Settings, profile: &Directory, cluster: &Cluster) -> io::Result<()> {
    let mut value = config(cluster);
    value[HOME] = json!(settings.home);
    let text = format!("{value:#}\n");
    let is_due = match profile.read(FILE) {
        Ok(before) => before != text && home_in(&before).is_some(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_due { profile.replace(FILE, text.as_bytes()) } else { Ok(()) }
}

/// What else is in the directory stays.
fn remove(settings: &Settings, profiles: &Directory, name: &str) -> io::Result<()> {
    let Ok(profile) = profiles.existing(name) else { return Ok(()) };
    let text = profile.read(FILE).unwrap_or_default();
    if home_in(&text).is_some_and(|home| home == json!(settings.home)) {
        profile.remove(FILE)?;
        // Files of other tools keep it.
        let _ = profiles.remove_empty(name);
    }
    Ok(())
}

/// The state directory that a file is about.
fn home_in(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text).ok()?.get(HOME).cloned()
}

/// What scripts read of minikube's `ClusterConfig`.
pub(crate) fn config(cluster: &Cluster) -> Value {
    let spec = &cluster.spec;
    let nodes = cluster.nodes().map(|node| {
        let is_control_plane = node.spec.role == Role::ControlPlane;
        json!({
            "Name": node.spec.name.as_ref(),
            "IP": node.address,
            "Port": if is_control_plane { cluster.api_port() } else { 0 },
            "KubernetesVersion": spec.version_of(&node.spec).to_string(),
            "ContainerRuntime": "containerd",
            "ControlPlane": is_control_plane,
            "Worker": !is_control_plane || !spec.taint_control_planes,
        })
    });
    let options = spec.extra_config.iter().map(|option| {
        json!({"Component": option.component().name(), "Key": option.key(), "Value": option.value()})
    });
    json!({
        "Name": spec.name.as_ref(),
        "Driver": spec.primary().driver().to_string(),
        "APIServerPort": cluster.api_port(),
        "KubernetesConfig": {
            "KubernetesVersion": spec.kubernetes_version.to_string(),
            "ClusterName": spec.name.as_ref(),
            "APIServerHAVIP": cluster.virtual_ip(),
            "ContainerRuntime": "containerd",
            "NetworkPlugin": "cni",
            "ServiceCIDR": spec.network.service_subnet,
            "DNSDomain": spec.network.dns_domain,
            "ExtraOptions": options.collect::<Vec<_>>(),
        },
        "Nodes": nodes.collect::<Vec<_>>(),
    })
}
