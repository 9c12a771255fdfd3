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
    cx.screen.result(&super::changed_json(&stopped), || match stopped.changed {
        Changed::Yes => format!("stopped {}", super::named(&stopped.nodes)),
        Changed::No => format!("{} already stopped", super::named_are(&stopped.nodes)),
    });
    Ok(())
}
