//! `flotilla logs`

mod left;

use flotilla_core::explain::profile_flag;
use flotilla_core::{Attach, DriverError, Power};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;

use crate::args::LogsArgs;
use crate::cluster::{Cx, node_of};

/// PID 1's own logs and those of the containers in kube-system.
const FILES: &str = "/var/log/flotilla/*.log /var/log/pods/kube-system_*/*/*.log";

/// The node's own `tail` takes our place. A node that does not run has left its logs on the disk.
pub(crate) fn run(cx: &Cx, args: &LogsArgs) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    let name = node_of(&cluster, args.wanted())?.spec.name;
    let mut machines = cx.wait(cx.engine().machines(&cx.name))?;
    let cluster_runs = machines.values().any(|machine| machine.state().power == Power::On);
    let found = machines.remove(&name);
    let off = found.filter(|machine| machine.state().power == Power::Off && !args.follow);
    if let Some(var) = off.and_then(|machine| machine.var()) {
        let command = if cluster_runs { format!("node start {name}") } else { "start".to_owned() };
        let hint = format!("start it with `flotilla {command}{}`", profile_flag(&cx.name));
        cx.screen.note(&format!("node {name} is not running: these are the logs that it left"), &hint);
        left::show(cx.screen, &var, args.length)?;
        return Ok(());
    }
    let machine = cx.wait(cx.engine().machine(&cx.name, &name))?;
    let follow = if args.follow { "-F" } else { "" };
    // The pattern of a log that is not there stands for itself.
    let line = format!(
        "set --; for log in {FILES}; do [ -e \"$log\" ] && set -- \"$@\" \"$log\"; done; \
         exec tail -v -n {} {follow} \"$@\"",
        args.length
    );
    match machine.guest().attach(vec!["bash".into(), "-c".into(), line], Vec::new(), Attach::Streams) {
        Ok(never) => match never {},
        Err(error) => Err(EngineError::Driver(DriverError::Guest(error)).into()),
    }
}
