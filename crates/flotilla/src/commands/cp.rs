//! `flotilla cp`

mod end;
mod host;
mod node_path;
mod typed;

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;

use flotilla_core::Event;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use rustix::fs::{CWD, Mode, OFlags};
use serde_json::json;

use crate::args::{CopyArgs, NodeCopyArgs};
use crate::cluster::Cx;

use end::{End, Entry, Kind};
use typed::Typed;

pub(crate) fn run(cx: &Cx, args: &CopyArgs) -> Result<(), OpError> {
    copy(cx, &typed::ends(None, &args.source, &args.target))
}

/// The same, where a node may be named before the paths.
pub(crate) fn run_for_node(cx: &Cx, args: &NodeCopyArgs) -> Result<(), OpError> {
    let (name, [source, target]) = match args.paths.as_slice() {
        [name, source, target] => (Some(name.as_str()), [source, target]),
        [source, target, ..] => (None, [source, target]),
        _ => unreachable!("clap wants two or three"),
    };
    copy(cx, &typed::ends(name, source, target))
}

fn copy(cx: &Cx, [from, to]: &[Typed; 2]) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    if to.is_stream() {
        return to_standard_output(cx, &End::open(cx, &cluster, from)?);
    }
    let target = End::open(cx, &cluster, to)?;
    if from.is_stream() {
        return from_standard_input(cx, &target);
    }
    let source = End::open(cx, &cluster, from)?;
    cx.handle_signals()?;
    let kind = cx.wait(source.look())?;
    let target = target.inside_if_folder(cx, source.name().as_deref())?;
    let files = match kind {
        Kind::File { mode } => copy_file(cx, &source, &target, mode).map(|()| 1)?,
        Kind::Folder { .. } => copy_folder(cx, &source, &target)?,
        // Only the path itself can be one; it was followed.
        Kind::Link { .. } | Kind::Other => {
            return Err(source.failed("copy", io::Error::other("it is a device, pipe or socket")).into());
        }
    };
    cx.screen.result(
        &json!({"source": source.to_string(), "target": target.to_string(), "files": files}),
        || {
            let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
            format!("copied {files} to {target}")
        },
    );
    Ok(())
}

/// `cp NODE:FILE -`: the bytes and nothing else, so that they can be piped on.
fn to_standard_output(cx: &Cx, source: &End) -> Result<(), OpError> {
    let End::Node(node) = source else {
        return Err(source.failed("copy", io::Error::other("it is not in a node")).into());
    };
    if !matches!(cx.wait(source.look())?, Kind::File { .. }) {
        return Err(source.failed("copy", io::Error::other("only a file can go to standard output")).into());
    }
    let output = io::stdout().as_fd().try_clone_to_owned();
    let output = output.map_err(|error| host::failed("write", "standard output".as_ref(), error))?;
    cx.wait(node.read_into(File::from(output)))?;
    Ok(())
}

/// `cp - NODE:FILE`. Read to its end first: a pipe that breaks off leaves nothing half done.
fn from_standard_input(cx: &Cx, target: &End) -> Result<(), OpError> {
    const MODE: u32 = 0o644;
    if let Some(Kind::Folder { .. }) = cx.wait(target.find())? {
        return Err(target.failed("write", io::Error::other("it is a directory: name a file in it")).into());
    }
    let mut file = unnamed_file(cx)?;
    io::copy(&mut io::stdin().lock(), &mut file)
        .and_then(|_| file.rewind())
        .map_err(|error| host::failed("read", "standard input".as_ref(), error))?;
    cx.handle_signals()?;
    cx.wait(target.fill(file, MODE))?;
    let value = json!({"source": "-", "target": target.to_string(), "files": 1});
    cx.screen.result(&value, || format!("copied standard input to {target}"));
    Ok(())
}

/// Directories first, links last. What is in the target already stays, unless it has the same name.
fn copy_folder(cx: &Cx, source: &End, target: &End) -> Result<u64, OpError> {
    if !matches!(cx.wait(target.find())?, None | Some(Kind::Folder { .. })) {
        return Err(target.failed("make", io::Error::other("a file of that name exists")).into());
    }
    let entries = cx.wait(source.list())?;
    let is_other = |entry: &&Entry| matches!(entry.kind, Kind::Other);
    for other in entries.iter().filter(is_other) {
        let text = format!("skipped {}: it is a device, pipe or socket", source.join(&other.path));
        cx.screen.reporter().report(Event::Warning { text });
    }
    cx.wait(target.make_folders(&entries))?;
    let mut files = 0;
    for entry in &entries {
        if let Kind::File { mode } = entry.kind {
            copy_file(cx, &source.join(&entry.path), &target.join(&entry.path), mode)?;
            files += 1;
        }
    }
    cx.wait(target.make_links(&entries))?;
    Ok(files)
}

fn copy_file(cx: &Cx, source: &End, target: &End, mode: u32) -> Result<(), OpError> {
    if cx.cancel.is_cancelled() {
        return Err(EngineError::Interrupted.into());
    }
    match (source, target) {
        (End::Host(source), _) => {
            let file = File::open(source).map_err(|error| host::failed("read", source, error))?;
            cx.wait(target.fill(file, mode))?;
        }
        (End::Node(node), End::Host(path)) => {
            cx.wait(host::filled(path, mode, async |file| node.read_into(file).await))?;
        }
        // Through the host, so that a copy that breaks off leaves nothing half done.
        (End::Node(node), End::Node(_)) => {
            let mut between = unnamed_file(cx)?;
            let written =
                between.try_clone().map_err(|error| host::failed("write", &cx.settings().home, error))?;
            cx.wait(node.read_into(written))?;
            between.rewind().map_err(|error| host::failed("read", &cx.settings().home, error))?;
            cx.wait(target.fill(between, mode))?;
        }
    }
    Ok(())
}

/// A file on the disk that nobody sees and that is gone when it is closed.
fn unnamed_file(cx: &Cx) -> Result<File, EngineError> {
    let home = &cx.settings().home;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, home, flags, Mode::RUSR | Mode::WUSR);
    file.map(File::from).map_err(|errno| host::failed("write", home, io::Error::from(errno)))
}
