//! Clusters in minikube's shape: the table and the JSON of `minikube profile list`.

use flotilla_core::Cluster;
use flotilla_ops::OpError;
use flotilla_ops::list::{self, ClusterPower, Request, State, Status, Valid};
use serde_json::{Value, json};

use super::row::word;
use super::tell;
use crate::args::{ProfileListArgs, ProfileListOutput};
use crate::cluster::Cx;
use crate::commands::availability;
use crate::profile_file::config;
use crate::screen::bordered_table;

/// A cluster that can be read.
struct Profile<'a> {
    cluster: &'a Cluster,
    status: &'static str,
    current: bool,
}

pub(crate) fn run(cx: &Cx, args: &ProfileListArgs) -> Result<(), OpError> {
    let listed = cx.wait(list::run(&cx.context(), Request { light: args.light, control_planes: true }))?;
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
    fn of(Valid { cluster, power, is_current, .. }: &'a Valid) -> Self {
        Self { cluster, status: power.map_or("Skipped", status), current: *is_current }
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
            self.cluster.api_port().to_string(),
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

/// minikube's word for several control planes, whatever is wanted of the nodes.
fn status(power: ClusterPower) -> &'static str {
    match power.healthy_control_planes {
        Some(healthy) if !matches!(power.status, Status::Paused | Status::Unknown) => {
            availability::of(healthy).1
        }
        _ => word(power.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_control_planes_are_named_by_how_many_are_healthy() {
        let told = |status, healthy_control_planes| {
            self::status(ClusterPower { nodes_running: 3, status, healthy_control_planes })
        };
        assert_eq!(told(Status::Running, Some(4)), "HAppy");
        assert_eq!(told(Status::Partial, Some(3)), "HAppy", "a worker is missing");
        assert_eq!(told(Status::Running, Some(2)), "Degraded");
        assert_eq!(told(Status::Partial, Some(1)), "Stopped");
        assert_eq!(told(Status::Paused, Some(0)), "Paused");
        assert_eq!(told(Status::Partial, None), "Partial", "a single control plane");
    }
}
