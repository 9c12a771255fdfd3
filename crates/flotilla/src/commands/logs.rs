//! `flotilla logs`

use flotilla_core::explain::profile_flag;
use flotilla_core::{Attach, LogFile};
use flotilla_ops::OpError;
use flotilla_ops::logs::{self, Logs, OfflineLogs, Request};

use super::ssh;
use crate::args::LogsArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &LogsArgs) -> Result<(), OpError> {
    let request = Request {
        cluster: cx.name.clone(),
        node: args.wanted().map(str::to_owned),
        lines: args.length,
        follow: args.follow,
    };
    match cx.wait(logs::run(&cx.context(), &request))? {
        Logs::Running(program) => ssh::attach(cx, program, Attach::Streams),
        Logs::Off(logs) => {
            show(cx, &logs);
            Ok(())
        }
    }
}

/// As `tail` shows them.
fn show(cx: &Cx, OfflineLogs { node, cluster_runs, files }: &OfflineLogs) {
    let command = if *cluster_runs { format!("node start {node}") } else { "start".to_owned() };
    let hint = format!("start it with `flotilla {command}{}`", profile_flag(&cx.name));
    cx.screen.note(&format!("node {node} is not running: showing its log files"), &hint);
    for LogFile { path, text } in files {
        cx.screen.line(&format!("==> {path} <==\n{text}\n"));
    }
}
