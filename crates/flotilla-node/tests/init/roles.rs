//! What this binary is when it is not the harness.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;

use flotilla_node::{Config, flotilla_init_in, supervise, systemctl_in};
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// PID 1. The second argument is its configuration as JSON.
pub(crate) const INIT: &str = "role-init";

/// Containerd: listens where it should, until SIGTERM. The second argument is the node's root.
pub(crate) const CONTAINERD: &str = "role-containerd";

/// `systemctl`. The second argument is the node's root, the others are its own.
pub(crate) const SYSTEMCTL: &str = "role-systemctl";

/// `flotilla-init`, as programs in the node find it. The arguments are like those of `systemctl`.
pub(crate) const PROGRAM: &str = "role-program";

pub(crate) fn run_if_role(args: &[OsString]) -> Option<i32> {
    let subject = Path::new(args.get(2)?);
    match args.get(1)?.to_str()? {
        INIT => Some(init(&serde_json::from_str(subject.to_str()?).ok()?)),
        CONTAINERD => Some(containerd(subject)),
        PROGRAM => flotilla_init_in(subject, &args[3..]),
        SYSTEMCTL => Some(systemctl_in(subject, &args[3..])),
        _ => None,
    }
}

fn init(config: &Config) -> i32 {
    match supervise(config, || tell(&config.root, "ready")) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn containerd(root: &Path) -> i32 {
    let mut signals = Signals::new([SIGTERM]).unwrap();
    let socket = root.join("run/containerd/containerd.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    drop(fs::remove_file(&socket));
    let _listener = UnixListener::bind(&socket).unwrap();
    tell(root, "containerd up");
    signals.forever().next();
    tell(root, "containerd ends");
    0
}

/// Adds a line to the node's list of events.
fn tell(root: &Path, event: &str) {
    let mut events = OpenOptions::new().create(true).append(true).open(root.join("events")).unwrap();
    events.write_all(format!("{event}\n").as_bytes()).unwrap();
}
