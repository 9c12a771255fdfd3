//! An existing machine: its power state, and programs and files in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_core::Cancel;
use flotilla_core::driver::PROCESS;
use flotilla_core::network::LINK;
use flotilla_core::{
    Cmd, DriverError, ExecOutput, Guest, GuestError, LogFile, Machine, MachineRecord, MachineState, Power,
    Reader, Session, TtySize, Writer,
};
use flotilla_linux::cgroup::{Group, is_init};
use flotilla_linux::enter::{self, Files, OpenError, Opening, Progress, Request};
use flotilla_linux::host::CommandError;
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::process::Process;
use flotilla_spec::{ClusterName, DriverName, NodeName};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::disk::Disk;
use super::{NativeDriver, layout, logs};
use crate::error::{At, NativeError};

/// How long a file of a machine may take without progress: as long as a program, since a slow disk makes both wait.
const FILE_LIMIT: Duration = Cmd::DEFAULT_LIMIT;

/// A node made of namespaces.
#[derive(Debug, Clone)]
pub(super) struct NativeMachine {
    name: NodeName,
    group: Group,
    group_name: String,
    /// PID 1, if it runs.
    init: Option<Process>,
    intact: bool,
    disk: Disk,
    cancel: Cancel,
}

impl NativeDriver {
    /// Every machine that has a directory or a control group.
    pub(super) fn find_machines(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, NativeError> {
        let mut machines: Vec<Arc<dyn Machine>> = Vec::new();
        for node in self.node_names(cluster)? {
            let init = self.init(cluster, &node)?;
            let mut machine = NativeMachine::new(self, cluster, &node, init)?;
            let runs = machine.init.is_some() && !machine.group.is_frozen();
            machine.intact = runs && machine.init.as_ref().is_some_and(has_link);
            machines.push(Arc::new(machine));
        }
        Ok(machines)
    }

    /// PID 1 of a running node: found by its control group, or by the lock on its disk if the mounts of control
    /// groups have changed since it started.
    pub(super) fn init(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Option<Process>, NativeError> {
        if let Some(init) = self.group(cluster, node)?.init() {
            return Ok(Some(init));
        }
        let folder = Disk::of(&self.nodes_folder(cluster), node).folder;
        match life::of(&folder).at("read the lock in", folder)? {
            Life::None => Ok(None),
            // A machine that is shutting down cannot be entered or signalled.
            Life::Runs(init) => Ok(Some(init).filter(|init| is_init(init.pid()))),
            Life::Unseen => Err(NativeError::Unseen { node: node.clone() }),
        }
    }

    pub(super) fn node_names(&self, cluster: &ClusterName) -> Result<Vec<NodeName>, NativeError> {
        let folder = self.nodes_folder(cluster);
        let mut names = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            items => items
                .at("read", &folder)?
                .filter_map(|item| item.ok()?.file_name().into_string().ok())
                .collect(),
        };
        names.extend(Group::new(&layout()?, &self.names(cluster).group())?.children());
        names.sort();
        names.dedup();
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }
}

impl NativeMachine {
    fn new(
        native: &NativeDriver,
        cluster: &ClusterName,
        node: &NodeName,
        init: Option<Process>,
    ) -> Result<Self, NativeError> {
        Ok(Self {
            name: node.clone(),
            group: native.group(cluster, node)?,
            group_name: native.names(cluster).node_group(node),
            init,
            intact: false,
            disk: Disk::of(&native.nodes_folder(cluster), node),
            cancel: native.cancel.clone(),
        })
    }

    /// One that was just booted or repaired.
    pub(super) fn on(
        native: &NativeDriver,
        cluster: &ClusterName,
        node: &NodeName,
        init: Process,
    ) -> Result<Self, NativeError> {
        Ok(Self { intact: true, ..Self::new(native, cluster, node, Some(init))? })
    }

    fn init(&self) -> Result<&Process, GuestError> {
        self.init.as_ref().ok_or_else(|| GuestError::Off { node: self.name.to_string() })
    }

    /// PID 1, and a program for it. In a frozen machine no program would start.
    fn request(
        &self,
        argv: Vec<String>,
        env: Vec<(String, String)>,
    ) -> Result<(&Process, Request), GuestError> {
        let init = self.init()?;
        if self.group.is_frozen() {
            let what = shortened(&argv.join(" "));
            return Err(GuestError::Frozen { node: self.name.to_string(), what });
        }
        Ok((init, Request { group: self.group_name.clone(), argv, env }))
    }

    fn not_opened(&self, request: &Request, error: OpenError) -> GuestError {
        let (node, argv) = (self.name.to_string(), request.argv.join(" "));
        match error {
            OpenError::Stage(error) => self.failed(error),
            OpenError::Failed(source) => GuestError::Start { node, argv, source },
            OpenError::TimedOut(limit) => GuestError::TimedOut { node, what: shortened(&argv), limit },
            OpenError::Interrupted => GuestError::Interrupted,
        }
    }

    fn failed(&self, error: CommandError) -> GuestError {
        let node = self.name.to_string();
        match error {
            CommandError::Failed { argv, exit, tail } => GuestError::Failed { node, argv, exit, tail },
            CommandError::TimedOut { argv, limit } => {
                GuestError::TimedOut { node, what: shortened(&argv), limit }
            }
            CommandError::TooMuchOutput { argv, limit } => GuestError::TooMuchOutput { node, argv, limit },
            CommandError::Cancelled { .. } => GuestError::Interrupted,
            CommandError::Start { program, source } | CommandError::Read { program, source } => {
                GuestError::Start { node, argv: program, source }
            }
            CommandError::NotFound { program } => {
                GuestError::Start { node, argv: program, source: io::ErrorKind::NotFound.into() }
            }
        }
    }

    /// The reason of a failed copy: an interruption, if there was one.
    fn or_interrupted(&self, error: GuestError) -> GuestError {
        if self.cancel.is_cancelled() { GuestError::Interrupted } else { error }
    }

    /// Accesses what the host keeps of the machine, on a blocking thread.
    async fn with_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Disk) -> Result<T, NativeError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let disk = self.disk.clone();
        let done = tokio::task::spawn_blocking(move || work(&disk)).await;
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        Ok(done?)
    }

    /// Accesses the machine's files on a blocking thread, as long as there is progress: a file system of the machine
    /// may hang.
    async fn with_files<T: Send + 'static>(
        &self,
        action: &'static str,
        path: &str,
        work: impl FnOnce(&Files, &Path, &Progress) -> io::Result<T> + Send + 'static,
    ) -> Result<T, GuestError> {
        let init = self.init()?.clone();
        let (owned, progress) = (path.to_owned(), Progress::default());
        let seen = progress.clone();
        // In a thread that is never joined: if it hangs, it must not keep us from exiting.
        let (sender, mut done) = oneshot::channel();
        std::thread::spawn(move || {
            let worked = Files::of(&init).and_then(|files| work(&files, Path::new(&owned), &progress));
            // Nobody waits for it any more.
            drop(sender.send(worked));
        });
        let node = self.name.to_string();
        loop {
            let before = seen.bytes();
            match timeout(FILE_LIMIT, &mut done).await {
                Ok(Ok(done)) => {
                    let path = path.to_owned();
                    return done.map_err(|source| GuestError::File { node, action, path, source });
                }
                // Only a panic drops the other end.
                Ok(Err(_)) => panic!("the thread that was to {action} {path} in node {node} has panicked"),
                Err(_) if seen.bytes() > before => {}
                Err(_) => {
                    let what = format!("to {action} {path}");
                    return Err(GuestError::TimedOut { node, what, limit: FILE_LIMIT });
                }
            }
        }
    }
}

#[async_trait]
impl Machine for NativeMachine {
    fn name(&self) -> &NodeName {
        &self.name
    }

    fn driver(&self) -> &DriverName {
        &super::NAME
    }

    fn state(&self) -> MachineState {
        let power = if self.init.is_some() { Power::On } else { Power::Off };
        MachineState { power, intact: self.intact }
    }

    fn guest(&self) -> &dyn Guest {
        self
    }

    async fn record(&self) -> Result<MachineRecord, DriverError> {
        self.with_disk(Disk::record).await
    }

    async fn set_record(&self, record: &MachineRecord) -> Result<(), DriverError> {
        let record = record.clone();
        self.with_disk(move |disk| disk.set_record(&record)).await
    }

    async fn bundles(&self) -> Result<Vec<String>, DriverError> {
        self.with_disk(Disk::bundles).await
    }

    fn details(&self) -> BTreeMap<String, String> {
        let process = self.init.as_ref().map(|init| init.pid().as_raw_nonzero().to_string());
        process.into_iter().map(|process| (PROCESS.to_owned(), process)).collect()
    }

    fn offline_logs(&self, lines: usize) -> io::Result<Option<Vec<LogFile>>> {
        logs::of(&self.disk, lines).map(Some)
    }

    fn read_disk(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path)
    }

    fn is_on_disk(&self, path: &str) -> io::Result<Option<bool>> {
        self.disk.has(path).map(Some)
    }
}

#[async_trait]
impl Guest for NativeMachine {
    async fn run(&self, cmd: Cmd) -> Result<ExecOutput, GuestError> {
        let limit = cmd.limit.unwrap_or(Cmd::DEFAULT_LIMIT);
        let max_output = cmd.max_output.unwrap_or(Cmd::DEFAULT_MAX_OUTPUT);
        let shown = cmd.argv.join(" ");
        let (init, request) = self.request(cmd.argv, cmd.env)?;
        let mut command = enter::command(init, &request).cancel(&self.cancel).max_output(max_output);
        if !cmd.stdin.is_empty() {
            let node = self.name.to_string();
            let failed = |source| GuestError::Start { node, argv: shown, source };
            command = command.stdin(memory_file(&cmd.stdin).map_err(failed)?);
        }
        let done = tokio::task::spawn_blocking(move || command.run_within(limit)).await;
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        done.map(|output| ExecOutput { stdout: output.stdout, stderr: output.stderr })
            .map_err(|error| self.failed(error))
    }

    async fn open(&self, cmd: Cmd, tty: Option<TtySize>) -> Result<Session, GuestError> {
        let limit = cmd.limit.unwrap_or(Cmd::BEGIN_LIMIT);
        let (machine, request) = self.request(cmd.argv, cmd.env)?;
        let name = self.name.as_ref();
        let opening = Opening { machine, name, request: &request, tty, limit, cancel: &self.cancel };
        enter::open(opening).await.map_err(|error| self.not_opened(&request, error))
    }

    async fn write(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), GuestError> {
        let bytes = bytes.to_owned();
        self.with_files("write", path, move |files, path, _| files.write(path, mode, &bytes)).await
    }

    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, GuestError> {
        self.with_files("read", path, |files, path, _| files.read(path)).await
    }

    async fn copy_in(&self, mut source: Reader, path: &str, mode: u32) -> Result<(), GuestError> {
        let cancel = self.cancel.clone();
        let copy = move |files: &Files, path: &Path, progress: &Progress| {
            files.copy_in(&mut source, path, mode, &cancel, progress)
        };
        self.with_files("write", path, copy).await.map_err(|error| self.or_interrupted(error))
    }

    async fn copy_out(&self, path: &str, mut target: Writer) -> Result<u32, GuestError> {
        let cancel = self.cancel.clone();
        let copy = move |files: &Files, path: &Path, progress: &Progress| {
            files.copy_out(path, &mut target, &cancel, progress)
        };
        self.with_files("read", path, copy).await.map_err(|error| self.or_interrupted(error))
    }
}

/// Whether a port is plugged in. Both ends of a link go together.
fn has_link(init: &Process) -> bool {
    let names = |proc: &Path| std::fs::read_to_string(proc.join("net/dev"));
    // One that has just ended has none.
    let devices = init.look(names).unwrap_or_default();
    devices.lines().any(|line| line.trim_start().split(':').next() == Some(LINK))
}

/// A command as shown in errors: a long script is shortened.
fn shortened(command: &str) -> String {
    const LONGEST: usize = 40;
    let start: String = command.chars().take(LONGEST).collect();
    if start.len() < command.len() { format!("`{start}…`") } else { format!("`{command}`") }
}

fn memory_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
