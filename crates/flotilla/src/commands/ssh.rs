//! `flotilla ssh`

use flotilla_ops::OpError;
use flotilla_ops::ssh::{self, Request};

use crate::args::SshArgs;
use crate::attach::{self, Typing};
use crate::cluster::Cx;

/// Gives the exit status of the program in the node.
pub(crate) fn run(cx: &Cx, args: &SshArgs) -> Result<u8, OpError> {
    let streams = attach::streams(cx.screen.console());
    let request = Request {
        cluster: cx.name.clone(),
        node: args.node.clone(),
        command: args.command.clone(),
        term: cx.settings().term.clone(),
        streams,
    };
    let session = cx.wait(ssh::run(&cx.context(), &request))?;
    attach::attach(cx, cx.screen.console(), session, streams, Typing::Ours)
}
