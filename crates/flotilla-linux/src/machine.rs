//! A machine made of namespaces: launched once, it lives on when whoever launched it is gone.
//!
//! ```text
//! host                 launch ──────────────▶ [`Channel`]: spec, then "go"
//!   └─ launcher        enters the control group, makes a pid namespace, starts init in it, ends
//!        └─ init       PID 1: all other namespaces ("namespaces"), mounts, waits for "go", its services ("ready")
//! ```
//!
//! A machine with a user namespace gets all of them from the launcher: see [`user`].
//!
//! Until it has its "go", init ends when the host's side of the channel does: a launch that is killed half-way leaves
//! no half machine. There is no file with its number: a machine is found by the control group it runs in
//! ([`Group::init`]) or by the lock that its PID 1 holds ([`life`]), and when PID 1 ends, the kernel ends all the rest and
//! the namespaces with it.
//!
//! Needs root, and Linux 5.3 or newer.

use flotilla_core::explain::one_line;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, setsid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::capabilities;
use crate::cgroup::{CgroupError, Group, Layout};
use crate::dev::DeviceError;
use crate::enter::Files;
use crate::erofs;
use crate::inherited;
use crate::mount::MountError;
use crate::process::Process;
use crate::sandbox::Bind;
use crate::user::Ids;

mod capacity;
pub mod life;
mod masks;
mod root;
mod user;

pub use capacity::Capacity;
pub(crate) use capacity::parse_list;
pub use root::Built;
pub use user::{Lack, Trial, try_machine};

/// The first argument of the stage that starts PID 1. The others: the control group, PID 1's first argument, a name, and what
/// the machine is made of.
pub const STAGE_LAUNCH: &str = "__machine-launch";
/// What the stages are called, for `ps`.
const SHOWN_AS: &str = "flotilla-init";
/// How long a stage may take for one step of the launch. A loaded host is slow; a hang is for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of the last line of a console an error tells.
const LONGEST_LINE: usize = 1000;

/// What a machine is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub hostname: String,
    /// The root file system; it is only read.
    pub root: PathBuf,
    /// A directory of the machine's own: what it writes outside `/var` goes to `upper` in it.
    pub folder: PathBuf,
    /// Becomes `/var`: a directory of a real file system, since an overlay cannot hold the upper of another.
    pub var: PathBuf,
    /// Files and directories of the host to show inside. What is read-only cannot be made writable by the machine.
    pub binds: Vec<Bind>,
    /// The same for what its owner wants inside, with all that is mounted below it. Attached last.
    pub mounts: Vec<Bind>,
    /// What no mount may cover, wherever links in the machine lead: programs of the machine would change or empty the
    /// directory of the host.
    pub own: Vec<PathBuf>,
    pub shared: Option<Shared>,
    /// Links to make inside: name, and what it points to.
    pub links: Vec<(PathBuf, PathBuf)>,
    pub capacity: Capacity,
    /// What `/sys/class/dmi/id/product_uuid` says: two nodes must not be one machine to the kubelet.
    pub uuid: String,
    /// The ids of its user namespace; none: it has the host's. A machine keeps what it was made with: see
    /// [`mount::Attributes`](crate::mount::Attributes).
    pub ids: Option<Ids>,
}

impl Spec {
    /// The machine's directory, as PID 1 sees it until it has built its root.
    pub fn folder_at_launch(&self) -> PathBuf {
        user::Sources::of(self).folder
    }
}

/// A directory that many machines have inside and none can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    pub directory: PathBuf,
    /// An image of it ([`crate::erofs`]), where the host can mount one.
    pub image: Option<PathBuf>,
    /// Where, as the machine sees it.
    pub target: PathBuf,
}

/// A machine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("cannot start PID 1")]
    Start { source: io::Error },
    #[error("PID 1 ended while {during}: {said}")]
    Ended { during: &'static str, said: String },
    #[error("PID 1 said something unexpected while {during}: {said:?}")]
    Unexpected { during: &'static str, said: String },
    #[error("cannot talk to PID 1 while {during}")]
    Channel { during: &'static str, source: io::Error },
    #[error("cannot open the console {}", path.display())]
    Console { path: PathBuf, source: io::Error },
    #[error("a machine runs on {} already", folder.display())]
    Runs { folder: PathBuf },
    #[error("cannot drop capabilities")]
    Capabilities { source: io::Error },
    #[error("cannot make a new {what} namespace")]
    Namespace { what: &'static str, source: io::Error },
    #[error("cannot set the host name {hostname}")]
    Hostname { hostname: String, source: io::Error },
    #[error("cannot make {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A machine in the making, seen from the host.
#[derive(Debug)]
pub struct Launched {
    pub init: Process,
    said: Said,
}

/// What PID 1 says while it is made.
#[derive(Debug)]
struct Said {
    reader: BufReader<UnixStream>,
    console: PathBuf,
}

/// Starts PID 1 of a machine in the control group `group`, which [`Group::create_for_machine`] has made.
///
/// `program` is a binary whose `main` calls [`run_if_launcher`], and which becomes PID 1 when its first argument is
/// `stage`; it is handed `spec`. `machine` is what it will [`build`], if it does. Returns when the namespaces exist: give it
/// its network, then call [`Launched::go`]. Its output goes to the file `console`.
pub fn launch(
    program: &Path,
    stage: &str,
    group: &str,
    name: &str,
    spec: &impl Serialize,
    machine: Option<&Spec>,
    console: &Path,
) -> Result<Launched, MachineError> {
    let (ours, theirs) = UnixStream::pair().map_err(|source| MachineError::Start { source })?;
    ours.set_read_timeout(Some(PATIENCE)).map_err(|source| MachineError::Start { source })?;
    let opened = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(console);
    let log = opened.map_err(|source| MachineError::Console { path: console.to_owned(), source })?;
    let machine =
        serde_json::to_string(&machine).map_err(|error| MachineError::Start { source: error.into() })?;
    start_launcher(program, [STAGE_LAUNCH, group, stage, name, &machine].map(OsStr::new), theirs, &log)
        .map_err(|source| MachineError::Start { source })?;

    let mut json = serde_json::to_vec(spec).map_err(|error| MachineError::Start { source: error.into() })?;
    json.push(b'\n');
    let sent = (&ours).write_all(&json);
    let mut said = Said { reader: BufReader::new(ours), console: console.to_owned() };
    let during = "it was started";
    let number = said.expect("pid ", during)?;
    sent.map_err(|source| MachineError::Channel { during, source })?;
    let unexpected = || MachineError::Unexpected { during, said: number.clone() };
    let pid = number.parse().ok().and_then(Pid::from_raw).ok_or_else(unexpected)?;
    let init = Process::open(pid).map_err(|source| MachineError::Channel { during, source })?;
    // It answers, so it had not ended when it was taken hold of, and its number was its own.
    said.expect("namespaces", "its namespaces were made")?;
    Ok(Launched { init, said })
}

impl Launched {
    /// Lets the machine live on without us, and waits until programs can run in it.
    pub fn go(mut self) -> Result<Process, MachineError> {
        let during = "its root was made";
        self.said
            .reader
            .get_ref()
            .write_all(b"go\n")
            .map_err(|source| MachineError::Channel { during, source })?;
        self.said.expect("ready", during)?;
        Ok(self.init)
    }
}

impl Said {
    /// The last line of the console, which may be long: whatever runs in the machine may write to it.
    fn last_line(&self) -> Option<String> {
        let (folder, name) = (self.console.parent()?, self.console.file_name()?);
        let line = Files::below(folder).ok()?.tail(Path::new(name), 1).ok()??;
        Some(line.chars().take(LONGEST_LINE).collect()).filter(|line: &String| !line.is_empty())
    }

    /// Reads a line that must begin so, and gives the rest of it.
    fn expect(&mut self, word: &'static str, during: &'static str) -> Result<String, MachineError> {
        let mut line = String::new();
        let read = match self.reader.read_line(&mut line) {
            // It ended before it had read all of its input.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            read => read.map_err(|source| MachineError::Channel { during, source })?,
        };
        if read == 0 {
            let said = self.last_line().unwrap_or_else(|| "it said nothing".to_owned());
            return Err(MachineError::Ended { during, said });
        }
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.to_owned()),
            None => Err(MachineError::Unexpected { during, said: line.trim_end().to_owned() }),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the machine must outlive us, which a host command does not")]
fn start_launcher(program: &Path, args: [&OsStr; 5], channel: UnixStream, console: &File) -> io::Result<()> {
    let mut launcher = Command::new(program)
        .arg0(SHOWN_AS)
        .args(args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(channel)))
        .stdout(console.try_clone()?)
        .stderr(console.try_clone()?)
        .spawn()?;
    // It ends as soon as it has started PID 1; what went wrong is in the console.
    launcher.wait().map(drop)
}

/// Runs the launcher's stage, or one of those that make or try a user namespace, if the arguments (with the program's own name
/// first) ask for it.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_launcher(args: &[std::ffi::OsString]) -> Option<i32> {
    if let Some(status) = crate::user::run_if_stage(args).or_else(|| user::run_if_stage(args)) {
        return Some(status);
    }
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    let [STAGE_LAUNCH, group, stage, name, machine] = words[..] else { return None };
    match start_init(group, stage, name, machine) {
        Ok(()) => Some(0),
        Err(error) => {
            tell("machine", &error);
            Some(1)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "PID 1 inherits the channel and outlives us")]
#[expect(unsafe_code, reason = "unshare")]
fn start_init(group: &str, stage: &str, name: &str, machine: &str) -> Result<(), MachineError> {
    let started = |source| MachineError::Start { source };
    let machine: Option<Spec> = serde_json::from_str(machine).map_err(|error| started(error.into()))?;
    let in_user_namespace = machine.as_ref().and_then(|machine| Some((machine, machine.ids?)));
    inherited::shed(&[]);
    let shared = machine.as_ref().and_then(|machine| machine.shared.as_ref()?.image.as_ref());
    // In a user namespace a read-only directory stays read-only.
    if let (Some(image), None) = (shared, in_user_namespace) {
        // Out here: the machine's control group may not open devices.
        erofs::mount(image)?.hand_over().map_err(started)?;
    }
    capabilities::limit().map_err(|source| MachineError::Capabilities { source })?;
    let layout = Layout::of_host().map_err(|source| CgroupError::Layout { source })?;
    let group = Group::new(&layout, group)?;
    if let Some((_, ids)) = in_user_namespace {
        group.hand_over(ids)?;
    }
    group.join_as_init()?;
    // No terminal of the user who started it is the machine's.
    setsid().map_err(|errno| started(errno.into()))?;
    let program = if let Some((machine, ids)) = in_user_namespace {
        user::enter(machine, ids, &layout)?
    } else {
        // SAFETY: no file descriptor tables are unshared, which is the only thing that can go wrong.
        unsafe { unshare_unsafe(UnshareFlags::NEWPID) }
            .map_err(|errno| MachineError::Namespace { what: "pid", source: errno.into() })?;
        "/proc/self/exe".into()
    };
    let mut command = Command::new(program);
    inherited::default_signals(&mut command);
    let init = command.arg0(SHOWN_AS).args([stage, name]).spawn().map_err(started)?;
    Channel::inherited().map_err(started)?.say(&format!("pid {}", init.id())).map_err(started)
}

/// The host, seen from PID 1: its standard input until it is ready.
#[derive(Debug)]
pub struct Channel {
    reader: BufReader<UnixStream>,
}

impl Channel {
    /// The channel a stage was started with.
    pub fn inherited() -> io::Result<Self> {
        let stream = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// What the machine is to be.
    pub fn spec<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    pub fn say(&mut self, word: &str) -> io::Result<()> {
        self.reader.get_mut().write_all(format!("{word}\n").as_bytes())
    }

    /// Waits until the host has made the machine's network. An error if the host is gone.
    pub fn wait_for_go(&mut self) -> io::Result<()> {
        match self.line()?.as_str() {
            "go" => Ok(()),
            other => Err(io::Error::other(format!("the host said {other:?}"))),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the host is gone"));
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Gives this process, PID 1, namespaces of its own. One in a user namespace was started with them.
pub fn enter_new_namespaces(machine: Option<&Spec>) -> Result<(), MachineError> {
    if machine.is_some_and(|machine| machine.ids.is_some()) {
        return Ok(());
    }
    crate::sandbox::unshare_the_rest().map_err(|(what, source)| MachineError::Namespace { what, source })
}

/// Makes the machine's root ours, with everything in it that its programs expect. What its owner wants inside comes with
/// [`Built::finish`]: until then no path in it leads to a file of the host's.
pub fn build(spec: &Spec) -> Result<Built<'_>, MachineError> {
    root::build(spec)
}

/// Prints the name of the program, and the error with its causes, as one line.
pub fn tell(who: &str, error: &dyn std::error::Error) {
    // If standard error is closed, the line is lost.
    drop(writeln!(io::stderr(), "{who}: {}", one_line(error)));
}

/// Lets go of the channel as standard input: the machine's programs get none.
pub fn detach_input() -> Result<(), MachineError> {
    let path = Path::new("/dev/null");
    let failed = |source| MachineError::Make { path: path.to_owned(), source };
    let null = File::open(path).map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| failed(errno.into()))
}
