//! Clusters in minikube's shape: the table and the JSON of `minikube profile list`.

use flotilla_core::Cluster;
use flotilla_core::cluster::API_PORT;
use flotilla_ops::OpError;
use flotilla_ops::list::{self, Request, State, Valid};
use flotilla_spec::Role;
use serde_json::{Value, json};

use super::{tell, word};
use crate::args::{ProfileListArgs, ProfileListOutput};
use crate::cluster::Cx;
use crate::screen::bordered_table;

/// A cluster that can be read.
struct Profile<'a> {
    cluster: &'a Cluster,
    status: &'static str,
    current: bool,
}

pub(crate) fn run(cx: &Cx, args: &ProfileListArgs) -> Result<(), OpError> {
    let listed = cx.wait(list::run(&cx.context(), Request { light: args.light }))?;
    let mut valid = Vec::new();
    let mut invalid = Vec::new();
    for one in &listed {
        match &one.state {
            State::Valid(it) => valid.push(Profile::of(it)),
            State::Invalid { error, .. } => {
                invalid.push(json!({"Name": one.name.as_ref(), "Status": "Invalid", "Error": error}));
            }
        }
    }
    match args.output {
        ProfileListOutput::Json => {
            let valid: Vec<_> = valid.iter().map(|profile| profile.json(cx)).collect();
            cx.screen.json(&json!({"invalid": invalid, "valid": valid}));
        }
        ProfileListOutput::Table if !valid.is_empty() => {
            let heading = if args.detailed { HEADING.to_vec() } else { without_port(HEADING.to_vec()) };
            let rows = valid.iter().map(|profile| {
                let cells = profile.cells(cx);
                if args.detailed { cells } else { without_port(cells) }
            });
            cx.screen.line(&bordered_table(&heading, rows));
        }
        ProfileListOutput::Table => {}
    }
    tell(cx, &listed);
    Ok(())
}

const HEADING: [&str; 10] = [
    "Profile",
    "Driver",
    "Runtime",
    "IP",
    "Port",
    "Version",
    "Status",
    "Nodes",
    "Active Profile",
    "Active Kubecontext",
];
/// A column for `--detailed` only.
const PORT: usize = 4;

fn without_port<T>(mut cells: Vec<T>) -> Vec<T> {
    cells.remove(PORT);
    cells
}

impl<'a> Profile<'a> {
    fn of(Valid { cluster, power, is_current }: &'a Valid) -> Self {
        Self { cluster, status: power.map_or("Skipped", |power| word(power.status)), current: *is_current }
    }

    fn is_active(&self, cx: &Cx) -> bool {
        *self.cluster.name() == cx.name
    }

    fn cells(&self, cx: &Cx) -> Vec<String> {
        let mark = |marked| if marked { "*".to_owned() } else { String::new() };
        let spec = &self.cluster.spec;
        vec![
            spec.name.to_string(),
            spec.primary().driver().to_string(),
            "containerd".to_owned(),
            self.cluster.virtual_ip().to_string(),
            API_PORT.to_string(),
            spec.kubernetes_version.to_string(),
            self.status.to_owned(),
            spec.nodes.len().to_string(),
            mark(self.is_active(cx)),
            mark(self.current),
        ]
    }

    fn json(&self, cx: &Cx) -> Value {
        json!({
            "Name": self.cluster.name().as_ref(),
            "Status": self.status,
            "Config": config(self.cluster),
            "Active": self.is_active(cx),
            "ActiveKubeContext": self.current,
        })
    }
}

/// What scripts read of minikube's `ClusterConfig`.
fn config(cluster: &Cluster) -> Value {
    let spec = &cluster.spec;
    let nodes = cluster.nodes().map(|node| {
        let is_control_plane = node.spec.role == Role::ControlPlane;
        json!({
            "Name": node.spec.name.as_ref(),
            "IP": node.address,
            "Port": if is_control_plane { API_PORT } else { 0 },
            "KubernetesVersion": spec.version_of(&node.spec).to_string(),
            "ContainerRuntime": "containerd",
            "ControlPlane": is_control_plane,
            "Worker": !is_control_plane || !spec.taint_control_planes,
        })
    });
    json!({
        "Name": spec.name.as_ref(),
        "Driver": spec.primary().driver().to_string(),
        "APIServerPort": API_PORT,
        "KubernetesConfig": {
            "KubernetesVersion": spec.kubernetes_version.to_string(),
            "ClusterName": spec.name.as_ref(),
            "APIServerHAVIP": cluster.virtual_ip(),
            "ContainerRuntime": "containerd",
            "NetworkPlugin": "cni",
            "ServiceCIDR": spec.network.service_subnet,
            "DNSDomain": spec.network.dns_domain,
        },
        "Nodes": nodes.collect::<Vec<_>>(),
    })
}
