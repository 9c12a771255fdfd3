//! `flotilla status`

mod about;
mod etcd;
mod shape;

use flotilla_core::explain::profile_flag;
use flotilla_core::{Power, Unresponsive};
use flotilla_ops::OpError;
use flotilla_ops::status::{self, KubeconfigProblem, Request};
use jiff::Timestamp;

use super::etcd::alarms;
use crate::args::{LayoutArg, StatusArgs};
use crate::cluster::Cx;
use crate::screen::fill_in;

use about::About;
use etcd::EtcdStatus;
use shape::{ClusterStatus, NodeStatus};

pub(crate) fn run(cx: &Cx, args: &StatusArgs) -> Result<u8, OpError> {
    let request = Request { cluster: cx.name.clone(), node: args.node.clone() };
    let seen = cx.wait(status::run(&cx.context(), &request))?;
    warn(cx, &seen);
    let cluster = &seen.cluster;
    let now = Timestamp::now();
    let nodes: Vec<_> = seen.nodes.iter().map(|node| NodeStatus::of(&cx.name, node, now)).collect();
    let etcd = seen.etcd.as_ref().map(|members| EtcdStatus::of(members.quorum(), alarms(cluster, members)));
    let about = About::new(cluster, seen.server.clone(), seen.created);
    let is_whole = args.node.is_none();
    // One node is asked for itself.
    let etcd_bits = etcd.as_ref().filter(|_| is_whole).map_or(0, EtcdStatus::exit_bits);
    let bits = nodes.iter().fold(etcd_bits, |bits, node| bits | node.exit_bits());
    if cx.screen.is_json() {
        match (args.layout, nodes.as_slice()) {
            (LayoutArg::Cluster, _) => {
                let virtual_ip = cluster.virtual_ip();
                cx.screen.json(&ClusterStatus::of(cx.name.as_ref(), about, &nodes, virtual_ip, etcd));
            }
            // As minikube has it, and scripts know it.
            (LayoutArg::Nodes, [only]) => cx.screen.json(only),
            (LayoutArg::Nodes, several) => cx.screen.json(&several),
        }
        return Ok(bits);
    }
    for node in &nodes {
        match &args.format {
            Some(template) => cx.screen.line(&fill_in(template, node)?),
            None => cx.screen.line(&node.full_text(cluster.virtual_ip())),
        }
    }
    if args.format.is_none() && is_whole {
        if let Some(etcd) = etcd {
            cx.screen.line(&etcd.text());
        }
        cx.screen.line(&about.text(cx.name.as_ref()));
    }
    Ok(bits)
}

/// What is wrong beside the data, and what helps.
fn warn(cx: &Cx, seen: &status::ClusterStatus) {
    let flag = profile_flag(&cx.name);
    for status in &seen.nodes {
        let node = &status.node.spec.name;
        if let Power::Unknown(why) = &status.power {
            let text = format!("the state of node {node} is unknown: {why}");
            cx.screen.warning(&text, "make the host answer, then run the command again");
        }
        if status.has_ended() {
            let text = format!("node {node} crashed or was killed");
            cx.screen.warning(&text, &format!("`flotilla start{flag}` starts it again with its data"));
        }
        let what = match status.health.unresponsive {
            None => continue,
            Some(Unresponsive::Frozen) => format!("node {node} is frozen"),
            Some(Unresponsive::Silent) => format!("node {node} does not answer"),
        };
        let hint = format!(
            "unfreeze it with `flotilla start{flag}`, or restart it with `flotilla node stop{flag} {node}` and `flotilla node start{flag} {node}`"
        );
        cx.screen.warning(&what, &hint);
    }
    match &seen.kubeconfig_problem {
        None => {}
        Some(KubeconfigProblem::Refused(why)) => {
            cx.screen.warning(why, "fix it, then run `flotilla update-context`");
        }
        Some(KubeconfigProblem::LeadsElsewhere(path)) => {
            let text = format!("{} does not point to {}", path.display(), cx.name);
            cx.screen.warning(&text, "repair it with `flotilla update-context`");
        }
    }
}
