//! `flotilla etcd …`

mod restore;
mod save;
mod status;

use flotilla_core::{Code, Explain};
use flotilla_ops::OpError;
use flotilla_ops::etcd::DataCopy;

use crate::args::{EtcdCommand, SnapshotCommand};
use crate::cluster::Cx;

pub(super) use status::alarms;

pub(crate) fn run(cx: &Cx, command: &EtcdCommand) -> Result<u8, OpError> {
    match command {
        EtcdCommand::Status(_) => status::run(cx),
        EtcdCommand::Snapshot(SnapshotCommand::Save(args)) => save::run(cx, args).map(|()| 0),
        EtcdCommand::Snapshot(SnapshotCommand::Restore(args)) => restore::run(cx, args).map(|()| 0),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot prompt: no terminal")]
struct NobodyToAsk;

impl Explain for NobodyToAsk {
    fn code(&self) -> Code {
        Code { name: "MK_USAGE", exit_status: 14 }
    }

    fn hints(&self) -> Vec<String> {
        vec!["use --yes to continue without a prompt".into()]
    }
}

/// Says what is going to happen, and asks the question unless `yes` was given.
pub(super) fn agreed(cx: &Cx, yes: bool, lines: &[String], question: &str) -> Result<bool, OpError> {
    if !cx.screen.is_json() {
        cx.screen.line(&lines.join("\n"));
    }
    if yes {
        return Ok(true);
    }
    let yes = cx.screen.ask(question).ok_or(NobodyToAsk)?;
    if !yes {
        cx.screen.line("nothing was changed");
    }
    Ok(yes)
}

/// Says where old data is, and how it is removed.
pub(super) fn tell_copies(cx: &Cx, copies: &[DataCopy]) {
    if let Some(text) = DataCopy::text(copies) {
        cx.screen.note(&text, "remove a copy that you do not need with `flotilla ssh -n NODE -- rm -r PATH`");
    }
}
