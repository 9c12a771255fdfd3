//! A machine that was found: its power, and programs and files in it.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_engine::port::{Attach, Cmd, Exec, ExecError, ExecOutput, Machine, MachineState, Power};
use flotilla_linux::cgroup::Group;
use flotilla_linux::enter::{self, Files, Request};
use flotilla_linux::host::{Cancel, CommandError};
use flotilla_spec::{ClusterName, NodeName};
use rustix::process::Pid;

use super::disk::Disk;
use super::error::{At, NativeError};
use super::{Native, layout};

/// A node made of namespaces.
#[derive(Debug, Clone)]
pub(super) struct NativeMachine {
    name: NodeName,
    group: String,
    /// PID 1, if it runs.
    init: Option<Pid>,
    whole: bool,
    disk: Disk,
    cancel: Cancel,
}

impl Native {
    /// Every machine that has a folder or a control group.
    pub(super) fn find_machines(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, NativeError> {
        let mut machines: Vec<Arc<dyn Machine>> = Vec::new();
        for node in self.node_names(cluster)? {
            let init = self.group(cluster, &node)?.init();
            let mut machine = NativeMachine::new(self, cluster, &node, init);
            machine.whole = init.is_some() && self.is_connected(cluster, &node)?;
            machines.push(Arc::new(machine));
        }
        Ok(machines)
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
    fn new(native: &Native, cluster: &ClusterName, node: &NodeName, init: Option<Pid>) -> Self {
        Self {
            name: node.clone(),
            group: native.names(cluster).node_group(node),
            init,
            whole: false,
            disk: Disk::of(&native.nodes_folder(cluster), node),
            cancel: native.cancel.clone(),
        }
    }

    /// One that was just booted or repaired.
    pub(super) fn on(native: &Native, cluster: &ClusterName, node: &NodeName, init: Pid) -> Self {
        Self { whole: true, ..Self::new(native, cluster, node, Some(init)) }
    }

    fn init(&self) -> Result<Pid, ExecError> {
        self.init.ok_or_else(|| ExecError::Off { node: self.name.to_string() })
    }

    fn request(&self, argv: Vec<String>, env: Vec<(String, String)>) -> Result<Request, ExecError> {
        let init = self.init()?.as_raw_nonzero().get();
        Ok(Request { init, group: self.group.clone(), argv, env, terminal: false })
    }

    fn failed(&self, error: CommandError) -> ExecError {
        let node = self.name.to_string();
        match error {
            CommandError::Failed { argv, status, tail, .. } => ExecError::Failed { node, argv, status, tail },
            CommandError::Cancelled { .. } => ExecError::Interrupted,
            CommandError::Start { program, source } | CommandError::Read { program, source } => {
                ExecError::Start { node, argv: program, source }
            }
            CommandError::NotFound { program } => {
                ExecError::Start { node, argv: program, source: io::ErrorKind::NotFound.into() }
            }
        }
    }

    /// What a copy failed for: Ctrl-C, if it came.
    fn or_interrupted(&self, error: ExecError) -> ExecError {
        if self.cancel.is_cancelled() { ExecError::Interrupted } else { error }
    }

    /// Does something with the machine's files, where blocking is allowed.
    async fn with_files<T: Send + 'static>(
        &self,
        action: &'static str,
        path: &str,
        work: impl FnOnce(&Files, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ExecError> {
        let init = self.init()?;
        let owned = path.to_owned();
        let done = tokio::task::spawn_blocking(move || work(&Files::of(init)?, Path::new(&owned))).await;
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let (node, path) = (self.name.to_string(), path.to_owned());
        done.map_err(|source| ExecError::File { node, action, path, source })
    }
}

impl Machine for NativeMachine {
    fn name(&self) -> &NodeName {
        &self.name
    }

    fn state(&self) -> MachineState {
        let power = if self.init.is_some() { Power::On } else { Power::Off };
        MachineState { power, whole: self.whole }
    }

    fn exec(&self) -> &dyn Exec {
        self
    }

    fn var(&self) -> Option<PathBuf> {
        Some(self.disk.var())
    }

    fn read_disk(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path)
    }
}

#[async_trait]
impl Exec for NativeMachine {
    async fn run(&self, cmd: Cmd) -> Result<ExecOutput, ExecError> {
        let mut argv = cmd.argv;
        if let Some(limit) = cmd.limit {
            // The machine's own busybox keeps the time.
            let seconds = limit.as_secs().max(1).to_string();
            argv = ["timeout".to_owned(), seconds].into_iter().chain(argv).collect();
        }
        let request = self.request(argv, cmd.env)?;
        let mut command = enter::command(&request).cancel(&self.cancel);
        if !cmd.stdin.is_empty() {
            let file = memory_file(&cmd.stdin).map_err(|source| ExecError::Start {
                node: self.name.to_string(),
                argv: request.argv.join(" "),
                source,
            })?;
            command = command.stdin(file);
        }
        let done = tokio::task::spawn_blocking(move || command.run()).await;
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        done.map(|output| ExecOutput { stdout: output.stdout, stderr: output.stderr })
            .map_err(|error| self.failed(error))
    }

    fn attach(
        &self,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        how: Attach,
    ) -> Result<std::convert::Infallible, ExecError> {
        let request = Request { terminal: how == Attach::Terminal, ..self.request(argv, env)? };
        Err(self.failed(enter::command(&request).replace_us()))
    }

    async fn put(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), ExecError> {
        let bytes = bytes.to_owned();
        self.with_files("write", path, move |files, path| files.write(path, mode, &bytes)).await
    }

    async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, ExecError> {
        self.with_files("read", path, Files::read).await
    }

    async fn copy_in(&self, source: File, path: &str, mode: u32) -> Result<(), ExecError> {
        let cancel = self.cancel.clone();
        let copy = move |files: &Files, path: &Path| files.copy_in(&source, path, mode, &cancel);
        self.with_files("write", path, copy).await.map_err(|error| self.or_interrupted(error))
    }

    async fn copy_out(&self, path: &str, target: File) -> Result<u32, ExecError> {
        let cancel = self.cancel.clone();
        let copy = move |files: &Files, path: &Path| files.copy_out(path, &target, &cancel);
        self.with_files("read", path, copy).await.map_err(|error| self.or_interrupted(error))
    }
}

fn memory_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
