//! `flotilla cp`

mod typed;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::cp::{self, Copied, Place, Request};

use crate::args::{CopyArgs, NodeCopyArgs};
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &CopyArgs) -> Result<(), OpError> {
    copy(cx, typed::ends(None, &args.source, &args.target))
}

/// The same, where a node may be named before the paths.
pub(crate) fn run_for_node(cx: &Cx, args: &NodeCopyArgs) -> Result<(), OpError> {
    let (name, [source, target]) = match args.paths.as_slice() {
        [name, source, target] => (Some(name.as_str()), [source, target]),
        [source, target, ..] => (None, [source, target]),
        _ => unreachable!("clap wants two or three"),
    };
    copy(cx, typed::ends(name, source, target))
}

fn copy(cx: &Cx, [source, target]: [Place; 2]) -> Result<(), OpError> {
    let context = cx.context();
    if typed::is_stream(&target) {
        return cx.wait(cp::read_out(&context, &cx.name, &source, Box::new(standard_output()?)));
    }
    if typed::is_stream(&source) {
        let spooled = cx.wait(cp::spool(&context, &cx.name, &mut io::stdin().lock(), &target))?;
        // Only now: until here Ctrl-C ends the program at once.
        cx.handle_signals()?;
        let copied = cx.wait(spooled.write())?;
        cx.screen.result(&copied, || format!("copied standard input to {}", copied.target));
        return Ok(());
    }
    cx.handle_signals()?;
    let copied = cx.wait(cp::run(&context, &Request { cluster: cx.name.clone(), source, target }))?;
    cx.screen.result(&copied, || {
        let Copied { target, files, .. } = &copied;
        let files = if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        format!("copied {files} to {target}")
    });
    Ok(())
}

/// Without a buffer in between: what a node sends arrives as it comes.
fn standard_output() -> Result<File, EngineError> {
    let output = io::stdout().as_fd().try_clone_to_owned();
    let unwritable = |source| EngineError::Io { action: "write", path: "standard output".into(), source };
    output.map(File::from).map_err(unwritable)
}
