//! A machine made of a map of files and a script of answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flotilla_core::{
    Cmd, Code, DriverError, ExecOutput, Exit, Guest, GuestError, LogFile, Machine, MachineRecord,
    MachineState, Membership, Power, Reader, Session, TtySize, Writer,
};
use flotilla_node_api::{NodeConfig, NodeStatus, PROTOCOL};
use flotilla_spec::{DriverName, NodeName};

use super::{Calls, Opened, Programs, node};

/// What a program answers: its output, or the last line of one that failed.
pub type Answer = Result<&'static str, &'static str>;

/// A machine as it was found: its files are shared with what is found later, its state is not.
#[derive(Debug, Clone)]
pub struct FakeMachine {
    name: NodeName,
    driver: DriverName,
    pub(super) state: MachineState,
    /// What it was made from.
    pub(super) bundles: Vec<String>,
    programs: Programs,
    inside: Arc<Inside>,
    /// Where its host notes what its own program is asked.
    host: Calls,
}

#[derive(Debug)]
struct Inside {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// What is known of it; none if nobody can read that any more.
    record: Mutex<Option<MachineRecord>>,
    /// Files that no reading of succeeds.
    unreadable: Mutex<BTreeSet<String>>,
    /// Its host cannot reach its disk while it is off.
    has_hidden_disk: AtomicBool,
    /// No program in it ends within its limit.
    hangs: AtomicBool,
    /// The first whose key is in a command's words is taken from the script and is the answer.
    script: Mutex<Vec<(&'static str, Answer)>>,
    /// How it is configured; none before its first boot.
    config: Mutex<Option<NodeConfig>>,
    /// The protocol of its own program.
    protocol: AtomicU32,
    /// What it will say of itself.
    statuses: Mutex<VecDeque<NodeStatus>>,
    calls: Calls,
}

impl FakeMachine {
    /// One that is on and named `demo`. Programs that are not in the script say nothing and do nothing.
    pub fn new(files: &[(&str, &[u8])], script: &[(&'static str, Answer)]) -> Self {
        let machine = Self::named("demo".parse().expect("it is a name"), script);
        machine.files().extend(files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())));
        machine
    }

    /// The same under another name, without files.
    pub fn named(name: NodeName, script: &[(&'static str, Answer)]) -> Self {
        let inside = Inside {
            files: Mutex::default(),
            record: Mutex::new(Some(MachineRecord::default())),
            unreadable: Mutex::default(),
            has_hidden_disk: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            script: Mutex::new(script.to_vec()),
            config: Mutex::default(),
            protocol: AtomicU32::new(PROTOCOL),
            statuses: Mutex::default(),
            calls: Calls::default(),
        };
        let state = MachineState { power: Power::On, intact: true };
        let (driver, programs, host) = (DriverName::default(), Programs::default(), Calls::default());
        Self { name, driver, state, bundles: Vec::new(), programs, inside: Arc::new(inside), host }
    }

    pub(super) fn made_by(self, driver: &DriverName, programs: &Programs, host: &Calls) -> Self {
        Self { driver: driver.clone(), programs: programs.clone(), host: host.clone(), ..self }
    }

    /// A file's text.
    pub fn file(&self, path: &str) -> Option<String> {
        self.files().get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// What was done, in order: programs by their words, files by their paths. Reading leaves no trace.
    pub fn log(&self) -> Vec<String> {
        self.inside.calls.log()
    }

    /// What its programs do that somebody talks to.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Where faults are asked for.
    pub fn calls(&self) -> &Calls {
        &self.inside.calls
    }

    /// The same machine, turned off.
    #[must_use]
    pub fn off(&self) -> Self {
        Self { state: MachineState { power: Power::Off, intact: false }, ..self.clone() }
    }

    /// Records what it is to its cluster.
    #[must_use]
    pub fn with_membership(self, membership: Membership) -> Self {
        *self.recorded() = Some(MachineRecord { membership });
        self
    }

    /// Damages its record.
    pub fn break_record(&self) {
        *self.recorded() = None;
    }

    fn recorded(&self) -> MutexGuard<'_, Option<MachineRecord>> {
        self.inside.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file, whether the machine is on or off.
    pub fn put_file(&self, path: &str, bytes: &[u8]) {
        self.files().insert(path.to_owned(), bytes.to_vec());
    }

    /// Lets its host not reach its disk while it is off.
    pub fn hide_disk(&self) {
        self.inside.has_hidden_disk.store(true, Ordering::Relaxed);
    }

    /// Lets no program in it end within its limit.
    pub fn hang(&self) {
        self.inside.hangs.store(true, Ordering::Relaxed);
    }

    /// Loses a file, whether the machine is on or off.
    pub fn lose_file(&self, path: &str) {
        self.files().remove(path);
    }

    /// Lets every reading of a file fail.
    pub fn break_file(&self, path: &str) {
        self.unreadable().insert(path.to_owned());
    }

    /// How it is configured.
    pub fn config(&self) -> Option<NodeConfig> {
        self.inside.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_config(&self, config: &NodeConfig) {
        *self.inside.config.lock().unwrap_or_else(PoisonError::into_inner) = Some(config.clone());
    }

    /// Lets another version of flotilla have booted it.
    pub fn set_protocol(&self, protocol: u32) {
        self.inside.protocol.store(protocol, Ordering::Relaxed);
    }

    pub(super) fn protocol(&self) -> u32 {
        self.inside.protocol.load(Ordering::Relaxed)
    }

    /// Boots it with our own program.
    pub(super) fn boot(&self, config: &NodeConfig) {
        self.set_protocol(PROTOCOL);
        self.set_config(config);
    }

    /// Changes what it says of itself: one answer after the other for each of `values`, and the last from then on.
    pub fn set_statuses<T>(&self, values: &[T], change: impl Fn(&mut NodeStatus, &T)) {
        let changed = values.iter().map(|value| {
            let mut status = node::status();
            change(&mut status, value);
            status
        });
        *self.statuses() = changed.collect();
    }

    pub(super) fn status(&self) -> NodeStatus {
        let mut statuses = self.statuses();
        let next = statuses.pop_front().unwrap_or_else(node::status);
        if statuses.is_empty() {
            statuses.push_back(next.clone());
        }
        next
    }

    fn statuses(&self) -> MutexGuard<'_, VecDeque<NodeStatus>> {
        self.inside.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.inside.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loses what is in memory only.
    pub(super) fn lose_memory(&self) {
        self.files().retain(|path, _| !path.starts_with("/run/"));
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.inside.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, argv: &str) -> Answer {
        let mut script = self.inside.script.lock().unwrap_or_else(PoisonError::into_inner);
        let at = script.iter().position(|(key, _)| argv.contains(key));
        at.map_or(Ok(""), |at| script.remove(at).1)
    }

    /// An error of the kind that a real machine's files give.
    fn file_error(&self, action: &'static str, path: &str, source: io::Error) -> GuestError {
        GuestError::File { node: self.name.to_string(), action, path: path.to_owned(), source }
    }

    fn require_known(&self) -> Result<(), GuestError> {
        match &self.state.power {
            Power::On | Power::Off => Ok(()),
            Power::Unknown(why) => Err(GuestError::Unknown { node: self.name.to_string(), why: why.clone() }),
        }
    }

    fn require_power(&self) -> Result<(), GuestError> {
        self.require_known()?;
        match self.state.power {
            Power::Off => Err(GuestError::Off { node: self.name.to_string() }),
            Power::On | Power::Unknown(_) => Ok(()),
        }
    }
}

#[async_trait]
impl Machine for FakeMachine {
    fn name(&self) -> &NodeName {
        &self.name
    }

    fn driver(&self) -> &DriverName {
        &self.driver
    }

    fn state(&self) -> MachineState {
        self.state.clone()
    }

    fn guest(&self) -> &dyn Guest {
        self
    }

    async fn record(&self) -> Result<MachineRecord, DriverError> {
        self.require_known()?;
        self.recorded().clone().ok_or_else(|| DriverError::Failed {
            what: format!("the record of node {} is damaged", self.name),
            code: Code { name: "HOST_STATE_DAMAGED", exit_status: 38 },
            hints: vec!["write it again".to_owned()],
            source: None,
        })
    }

    async fn set_record(&self, record: &MachineRecord) -> Result<(), DriverError> {
        self.require_known()?;
        let call = self.inside.calls.begin(format!("record {:?}", record.membership)).await?;
        *self.recorded() = Some(record.clone());
        Ok(call.end()?)
    }

    async fn bundles(&self) -> Result<Vec<String>, DriverError> {
        self.require_known()?;
        Ok(self.bundles.clone())
    }

    fn offline_logs(&self, lines: usize) -> io::Result<Option<Vec<LogFile>>> {
        let files = self.files();
        let logs = files.iter().filter(|(path, _)| path.starts_with("/var/log/"));
        let end = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let all: Vec<_> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        };
        Ok(Some(logs.map(|(path, bytes)| LogFile { path: path.clone(), text: end(bytes) }).collect()))
    }

    fn read_disk(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        if self.unreadable().contains(path) {
            return Err(io::Error::other("the disk is broken"));
        }
        Ok(self.files().get(path).cloned())
    }

    fn is_on_disk(&self, path: &str) -> io::Result<Option<bool>> {
        let is_hidden = self.inside.has_hidden_disk.load(Ordering::Relaxed);
        if is_hidden { Ok(None) } else { Ok(Some(self.read_disk(path)?.is_some())) }
    }
}

#[async_trait]
impl Guest for FakeMachine {
    async fn run(&self, cmd: Cmd) -> Result<ExecOutput, GuestError> {
        self.require_power()?;
        let argv = cmd.argv.join(" ");
        let call = self.inside.calls.begin(argv.clone()).await?;
        if self.inside.hangs.load(Ordering::Relaxed) {
            let (node, limit) = (self.name.to_string(), cmd.limit.unwrap_or(Cmd::DEFAULT_LIMIT));
            return Err(GuestError::TimedOut { node, what: argv, limit });
        }
        if let ["rm", "-f" | "-rf", paths @ ..] = &cmd.argv.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            self.files().retain(|path, _| !paths.contains(&path.as_str()));
        }
        if let Some(answer) = node::answer(self, &cmd) {
            self.host.ask(format!("{argv} {}", self.name)).await;
            call.end()?;
            return answer;
        }
        let answer = self.answer(&argv).map_err(|last| GuestError::Failed {
            node: self.name.to_string(),
            argv: argv.clone(),
            exit: Exit::Code(1),
            tail: last.lines().map(str::to_owned).collect(),
        })?;
        call.end()?;
        let limit = cmd.max_output.unwrap_or(Cmd::DEFAULT_MAX_OUTPUT);
        if answer.len() > limit {
            return Err(GuestError::TooMuchOutput { node: self.name.to_string(), argv, limit });
        }
        Ok(ExecOutput { stdout: answer.into(), stderr: Vec::new() })
    }

    async fn open(&self, cmd: Cmd, tty: Option<TtySize>) -> Result<Session, GuestError> {
        self.require_power()?;
        let (node, argv) = (self.name.to_string(), cmd.argv.join(" "));
        let call = self.inside.calls.begin(format!("open {argv}")).await?;
        let session = self.programs.open(&Opened { node: node.clone(), argv: cmd.argv, env: cmd.env, tty });
        call.end()?;
        session.ok_or_else(|| GuestError::Start { node, argv, source: io::ErrorKind::NotFound.into() })
    }

    async fn write(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), GuestError> {
        self.require_power()?;
        let call = self.inside.calls.begin(format!("put {path} {mode:o}")).await?;
        self.files().insert(path.to_owned(), bytes.to_vec());
        Ok(call.end()?)
    }

    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, GuestError> {
        self.require_power()?;
        self.read_disk(path).map_err(|error| self.file_error("read", path, error))
    }

    async fn copy_in(&self, mut source: Reader, path: &str, mode: u32) -> Result<(), GuestError> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).map_err(|error| self.file_error("write", path, error))?;
        self.write(path, mode, &bytes).await
    }

    async fn copy_out(&self, path: &str, mut target: Writer) -> Result<u32, GuestError> {
        let bytes = self.read(path).await?.ok_or(io::ErrorKind::NotFound);
        let copied = bytes.map_err(io::Error::from).and_then(|bytes| target.write_all(&bytes));
        copied.map_err(|error| self.file_error("read", path, error))?;
        Ok(0o644)
    }
}
