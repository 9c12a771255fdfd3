//! `flotilla etcd status`

mod text;

use flotilla_ops::OpError;
use flotilla_ops::etcd::status::{self, Request, Status};
use serde_json::{Value, json};

use crate::cluster::Cx;

use text::{name, to_text};

pub(in crate::commands) use text::alarms;

/// The exit status for Kubernetes that is not well, as in `flotilla status`.
const UNWELL: u8 = 2;

pub(super) fn run(cx: &Cx) -> Result<u8, OpError> {
    let status = cx.wait(status::run(&cx.context(), &Request { cluster: cx.name.clone() }))?;
    if cx.screen.is_json() {
        cx.screen.json(&to_json(&status));
    } else {
        cx.screen.line(&to_text(&status));
    }
    Ok(if status.members.is_well() { 0 } else { UNWELL })
}

fn to_json(Status { cluster, members: seen }: &Status) -> Value {
    let quorum = seen.quorum();
    let members = seen.0.iter().map(|status| {
        json!({
            "name": name(cluster, status),
            // JSON's numbers are too small for it.
            "id": format!("{:x}", status.member.id),
            "address": status.member.address,
            "answers": status.member.answers,
            "up": status.member.up,
            "leader": status.is_leader,
            "learner": status.member.learner,
            "version": status.version,
            "dbSize": status.size,
            "alarms": status.alarms,
            "complaints": status.complaints,
        })
    });
    json!({
        "members": members.collect::<Vec<_>>(),
        "total": quorum.total,
        "up": quorum.up,
        "needed": quorum.needed(),
        "quorum": quorum.holds(),
        "margin": quorum.margin(),
    })
}
