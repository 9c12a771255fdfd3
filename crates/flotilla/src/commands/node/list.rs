//! `flotilla node list`

use flotilla_core::driver::PROCESS;
use flotilla_ops::OpError;
use flotilla_ops::list_nodes::{self, ListedNode, Request, Status};
use flotilla_spec::quantity::MIB;
use flotilla_spec::{Memory, Role, WantedPower};
use serde::Serialize;

use crate::args::{NodeListArgs, NodeListOutput};
use crate::cluster::Cx;
use crate::screen::{fill_in, table};

/// A node, with the names that templates use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    name: String,
    role: &'static str,
    status: Status,
    /// What it should be: another status than that is a node that ended by itself, or whose host did.
    wanted: Status,
    #[serde(rename = "IP")]
    ip: String,
    version: String,
    #[serde(rename = "CPUs")]
    cpus: String,
    memory: String,
    #[serde(rename = "PodCIDR")]
    pod_cidr: String,
    labels: String,
    taints: String,
    mounts: String,
    ports: String,
    isolation: String,
    /// The node's PID 1, as the host numbers it: the node ends with it.
    #[serde(rename = "PID")]
    pid: Option<u32>,
}

pub(crate) fn run(cx: &Cx, args: &NodeListArgs) -> Result<(), OpError> {
    let listed = cx.wait(list_nodes::run(&cx.context(), &Request { cluster: cx.name.clone() }))?;
    let rows: Vec<Row> = listed.iter().map(Row::of).collect();
    match (&args.format, args.output) {
        (Some(template), _) => {
            for row in &rows {
                cx.screen.line(&fill_in(template, row)?);
            }
        }
        (None, NodeListOutput::Json) => cx.screen.json(&rows),
        (None, NodeListOutput::Text) => {
            cx.screen.line(&table(&HEADING, rows.into_iter().map(Row::cells)));
        }
        (None, NodeListOutput::Wide) => {
            let heading: Vec<_> =
                HEADING.into_iter().chain(["PODS", "ISOLATION", "LABELS", "TAINTS", "PORTS"]).collect();
            let lines = rows.into_iter().map(|row| {
                let more =
                    [&row.pod_cidr, &row.isolation, &row.labels, &row.taints, &row.ports].map(Clone::clone);
                row.cells().into_iter().chain(more).collect()
            });
            cx.screen.line(&table(&heading, lines));
        }
    }
    Ok(())
}

/// Name and address first, as minikube lists them.
const HEADING: [&str; 7] = ["NAME", "IP", "ROLE", "STATUS", "VERSION", "CPUS", "MEMORY"];

impl Row {
    fn of(ListedNode { node, status, version, cpus, memory, details }: &ListedNode) -> Self {
        let spec = &node.spec;
        Self {
            name: spec.name.to_string(),
            role: match spec.role {
                Role::ControlPlane => "control-plane",
                Role::Worker => "worker",
            },
            status: *status,
            wanted: match spec.power {
                WantedPower::Running => Status::Running,
                WantedPower::Stopped => Status::Stopped,
            },
            ip: node.address.to_string(),
            version: version.clone(),
            cpus: cpus.to_string(),
            // The host's is no whole number of anything but Ki.
            memory: Memory::Bytes(memory - memory % MIB).to_string(),
            pod_cidr: node.pod_range.to_string(),
            labels: spec.labels.to_string(),
            taints: listed(&spec.taints),
            mounts: listed(&spec.mounts),
            ports: listed(&spec.ports),
            isolation: spec.isolation.to_string(),
            pid: details.get(PROCESS).and_then(|pid| pid.parse().ok()),
        }
    }

    fn cells(self) -> Vec<String> {
        let status = match (self.status, self.wanted) {
            (Status::Stopped, Status::Running) => "Stopped (should run)",
            (Status::Stopped, _) => "Stopped",
            (Status::Running, _) => "Running",
            (Status::Paused, _) => "Paused",
            (Status::Unknown, _) => "Unknown",
        };
        vec![self.name, self.ip, self.role.into(), status.into(), self.version, self.cpus, self.memory]
    }
}

fn listed(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
