//! `flotilla logs`

use std::fs;
use std::io;
use std::path::Path;

use flotilla_core::LogFile;
use flotilla_core::explain::profile_flag;
use flotilla_engine::EngineError;
use flotilla_files::directory_of;
use flotilla_ops::OpError;
use flotilla_ops::logs::{self, Logs, OfflineLogs, Request};

use crate::args::LogsArgs;
use crate::attach::{self, Typing};
use crate::audit;
use crate::cluster::Cx;
use crate::owned::Directory;
use crate::screen::Console;

/// Gives the exit status of what shows them in the node.
pub(crate) fn run(cx: &Cx, args: &LogsArgs) -> Result<u8, OpError> {
    let streams = attach::plain_streams(cx.screen.console());
    let request = Request {
        cluster: cx.name.clone(),
        node: args.wanted().map(str::to_owned),
        lines: args.length,
        follow: args.follow,
        streams,
    };
    let shown = cx.wait(logs::run(&cx.context(), &request))?;
    let file = args.file.as_deref().map(|path| Target::open(cx, path)).transpose()?;
    let kept = file.is_some().then(|| Console::in_memory([]));
    // Who asks for one node, or follows it, wants nothing else.
    let of_host = (request.node.is_none() && !args.follow).then(|| sections_of_host(cx));
    if kept.is_none()
        && let Some(sections) = &of_host
    {
        cx.screen.foreign_line(sections);
    }
    let (status, of_node) = match shown {
        Logs::Running(session) => {
            let console = kept.as_ref().unwrap_or(cx.screen.console());
            let status = attach::attach(cx, console, session, streams, Typing::Nobodys)?;
            (status, kept.map(|console| console.captured().stdout).unwrap_or_default())
        }
        Logs::Off(logs) => {
            note_that_it_is_off(cx, &logs);
            let files = logs.files.iter().map(|LogFile { path, text }| format!("==> {path} <==\n{text}\n"));
            if file.is_none() {
                files.clone().for_each(|file| cx.screen.foreign_line(&file));
            }
            (0, files.collect::<Vec<_>>().join("\n"))
        }
    };
    if let Some(file) = file {
        file.write(&format!("{}\n{of_node}", of_host.unwrap_or_default()))?;
    }
    Ok(status)
}

/// The file that the user named. A link in its place is replaced: others may have put it there, and nodes write logs.
struct Target<'a> {
    path: &'a Path,
    name: &'a str,
    directory: Directory,
}

impl<'a> Target<'a> {
    fn open(cx: &Cx, path: &'a Path) -> Result<Self, OpError> {
        let failed = |source| at("write", path, source);
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(failed(io::Error::other("it is not a file")));
        }
        let directory = Directory::open(directory_of(path), cx.settings().owner).map_err(failed)?;
        Ok(Self { path, name, directory })
    }

    fn write(&self, text: &str) -> Result<(), OpError> {
        self.directory.replace(self.name, text.as_bytes()).map_err(|source| at("write", self.path, source))
    }
}

fn at(action: &'static str, path: &Path, source: io::Error) -> OpError {
    EngineError::Io { action, path: path.to_owned(), source }.into()
}

/// What minikube shows beside the logs of nodes: commands, the last start, the kernel.
fn sections_of_host(cx: &Cx) -> String {
    let kernel = rustix::system::uname();
    let [system, release, version, machine] =
        [kernel.sysname(), kernel.release(), kernel.version(), kernel.machine()]
            .map(|text| text.to_string_lossy());
    let sections = audit::sections(cx.settings());
    format!("{sections}\n==> kernel <==\n{system} {release} {version} {machine}\n")
}

fn note_that_it_is_off(cx: &Cx, OfflineLogs { node, cluster_runs, .. }: &OfflineLogs) {
    let command = if *cluster_runs { format!("node start {node}") } else { "start".to_owned() };
    let hint = format!("start it with `flotilla {command}{}`", profile_flag(&cx.name));
    cx.screen.note(&format!("node {node} is not running: showing its log files"), &hint);
}
