//! `flotilla node stop`

use flotilla_core::{Changed, Drain};
use flotilla_ops::OpError;
use flotilla_ops::node::stop::{self, Request};

use crate::args::NodeStopArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &NodeStopArgs) -> Result<(), OpError> {
    let request = Request {
        cluster: cx.name.clone(),
        nodes: args.nodes.clone(),
        drain: args.drain,
        how: Drain { limit: args.draining.drain_timeout, force: args.draining.force },
        busy: args.lock.busy(),
    };
    cx.handle_signals()?;
    let stopped = cx.wait(stop::run(&cx.context(), &request))?;
    cx.screen.result(&super::changed_json(&stopped), || {
        let (names, verb) =
            (super::joined(&stopped.nodes), if stopped.nodes.len() > 1 { "are" } else { "is" });
        match stopped.changed {
            Changed::Yes => format!("{names} {verb} stopped"),
            Changed::No => format!("{names} {verb} already stopped"),
        }
    });
    Ok(())
}
