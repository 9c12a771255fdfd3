//! `flotilla logs`

use flotilla_engine::EngineError;
use flotilla_engine::port::{Attach, DriverError};

use crate::args::LogsArgs;
use crate::cluster::{Cx, node_of};
use crate::failure::Failure;

/// PID 1's own logs and those of the containers in kube-system.
const FILES: &str = "/var/log/flotilla/*.log /var/log/pods/kube-system_*/*/*.log";

/// The node's own `tail` takes our place.
pub(crate) fn run(cx: &Cx, args: &LogsArgs) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    let node = node_of(&cluster, args.node.as_deref())?;
    let machine = cx.wait(cx.engine().machine(&cx.name, &node.spec.name))?;
    let follow = if args.follow { "-F" } else { "" };
    // The pattern of a log that is not there stands for itself.
    let line = format!(
        "set --; for log in {FILES}; do [ -e \"$log\" ] && set -- \"$@\" \"$log\"; done; \
         exec tail -v -n {} {follow} \"$@\"",
        args.length
    );
    match machine.exec().attach(vec!["bash".into(), "-c".into(), line], Vec::new(), Attach::Streams) {
        Ok(never) => match never {},
        Err(error) => Err(EngineError::Driver(DriverError::Exec(error)).into()),
    }
}
