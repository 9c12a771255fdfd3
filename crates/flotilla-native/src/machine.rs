//! An existing machine: its power state, and programs and files in it.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_core::Cancel;
use flotilla_core::{
    Attach, Cmd, ExecOutput, Guest, GuestError, LogFile, Machine, MachineState, Power, Reader, Writer,
};
use flotilla_linux::cgroup::{Group, is_init};
use flotilla_linux::enter::{self, Files, Progress, Request};
use flotilla_linux::host::{self, CommandError};
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::process::Process;
use flotilla_spec::{ClusterName, DriverName, NodeName};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::disk::Disk;
use super::error::{At, NativeError};
use super::{Native, layout, logs};

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

impl Native {
    /// Every machine that has a directory or a control group.
    pub(super) fn find_machines(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, NativeError> {
        let cabling = self.cabling(cluster)?;
        let mut machines: Vec<Arc<dyn Machine>> = Vec::new();
        for node in self.node_names(cluster)? {
            let init = self.init(cluster, &node)?;
            let mut machine = NativeMachine::new(self, cluster, &node, init)?;
            let runs = machine.init.is_some() && !machine.group.is_frozen();
            machine.intact = runs && cabling.reaches(&node)?;
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
        native: &Native,
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
        native: &Native,
        cluster: &ClusterName,
        node: &NodeName,
        init: Process,
    ) -> Result<Self, NativeError> {
        Ok(Self { intact: true, ..Self::new(native, cluster, node, Some(init))? })
    }

    fn init(&self) -> Result<&Process, GuestError> {
        self.init.as_ref().ok_or_else(|| GuestError::Off { node: self.name.to_string() })
    }

    /// A program for a running machine. In a frozen one it would not start.
    fn request(
        &self,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        how: Option<Attach>,
    ) -> Result<host::Command, GuestError> {
        let init = self.init()?;
        if self.group.is_frozen() {
            let what = shortened(&argv.join(" "));
            return Err(GuestError::Frozen { node: self.name.to_string(), what });
        }
        let (terminal, attached) = (how == Some(Attach::Terminal), how.is_some());
        let request = Request { group: self.group_name.clone(), argv, env, terminal, attached };
        Ok(enter::command(init, &request))
    }

    fn failed(&self, error: CommandError) -> GuestError {
        let node = self.name.to_string();
        match error {
            CommandError::Failed { argv, status, tail, .. } => {
                GuestError::Failed { node, argv, status, tail }
            }
            CommandError::TimedOut { argv, limit } => {
                GuestError::TimedOut { node, what: shortened(&argv), limit }
            }
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

    fn pid(&self) -> Option<u32> {
        self.init.as_ref()?.pid().as_raw_nonzero().get().try_into().ok()
    }

    fn offline_logs(&self, lines: usize) -> io::Result<Option<Vec<LogFile>>> {
        logs::of(&self.disk, lines).map(Some)
    }

    fn read_disk(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path)
    }

    fn is_on_disk(&self, path: &str) -> io::Result<bool> {
        self.disk.has(path)
    }

    fn remove_from_disk(&self, path: &str) -> io::Result<()> {
        self.disk.remove_file(path)
    }
}

#[async_trait]
impl Guest for NativeMachine {
    async fn run(&self, cmd: Cmd) -> Result<ExecOutput, GuestError> {
        let limit = cmd.limit.unwrap_or(Cmd::DEFAULT_LIMIT);
        let shown = cmd.argv.join(" ");
        let mut command = self.request(cmd.argv, cmd.env, None)?.cancel(&self.cancel);
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

    fn attach(
        &self,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        how: Attach,
    ) -> Result<std::convert::Infallible, GuestError> {
        Err(self.failed(self.request(argv, env, Some(how))?.replace_us()))
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
