//! `flotilla node delete`

use flotilla_core::Drain;
use flotilla_ops::OpError;
use flotilla_ops::node::delete::{self, Request};

use crate::args::NodeDeleteArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &NodeDeleteArgs) -> Result<(), OpError> {
    let request = Request {
        cluster: cx.name.clone(),
        nodes: args.nodes.clone(),
        drain: Drain { limit: args.draining.drain_timeout, force: args.draining.force },
        busy: args.lock.busy(),
    };
    cx.handle_signals()?;
    let deleted = cx.wait(delete::run(&cx.context(), &request))?;
    cx.screen.result(&super::nodes_json(&deleted), || format!("deleted {}", super::named(&deleted.nodes)));
    Ok(())
}
