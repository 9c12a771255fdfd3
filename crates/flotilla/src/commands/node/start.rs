//! `flotilla node start`

use flotilla_core::Changed;
use flotilla_ops::OpError;
use flotilla_ops::node::start::{self, Request};

use crate::args::NodeStartArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &NodeStartArgs) -> Result<(), OpError> {
    // Without names it is all of them: that is what the issue's `node add`, then `node start` proposes. --all says the same.
    let nodes = args.nodes.iter().chain(&args.name).cloned().collect();
    let request = Request { cluster: cx.name.clone(), nodes, busy: args.lock.busy() };
    cx.handle_signals()?;
    let started = cx.wait(start::run(&cx.context(), &request))?;
    cx.screen.result(&super::changed_json(&started), || {
        let (names, verb) =
            (super::joined(&started.nodes), if started.nodes.len() > 1 { "run" } else { "runs" });
        match started.changed {
            Changed::Yes => format!("{names} {verb}"),
            Changed::No => format!("{names} already {verb}"),
        }
    });
    Ok(())
}
