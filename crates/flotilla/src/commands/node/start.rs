//! `flotilla node start`

use flotilla_core::Changed;
use flotilla_ops::OpError;
use flotilla_ops::node::start::{self, Request};

use crate::args::NodeStartArgs;
use crate::cluster::Cx;
use crate::commands::failure;

pub(crate) fn run(cx: &Cx, args: &NodeStartArgs) -> Result<(), OpError> {
    // Without names it is all of them: that is what the issue's `node add`, then `node start` proposes. --all says the same.
    let nodes = args.nodes.iter().chain(&args.name).cloned().collect();
    let (wait_limit, busy) = (args.waiting.wait_timeout, args.lock.busy());
    let request = Request { cluster: cx.name.clone(), nodes, wait_limit, busy };
    cx.handle_signals()?;
    let started = cx.wait(start::run(&cx.context(), &request));
    let started = failure::kept(cx, args.failure, started)?;
    cx.screen.result(&super::changed_json(&started), || match started.changed {
        Changed::Yes => format!("started {}", super::named(&started.nodes)),
        Changed::No => format!("{} already running", super::named_are(&started.nodes)),
    });
    Ok(())
}
