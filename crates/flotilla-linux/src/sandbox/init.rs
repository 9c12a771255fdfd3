//! PID 1 of a sandbox: builds what its program is to see, runs it, and buries everybody.

use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, wait};
use rustix::system::sethostname;

use super::{SandboxError, Spec};
use crate::cgroup::{self, CgroupError, Group, Layout};
use crate::mount::{self, DATA_ONLY, Detached, SCRATCH};
use crate::{dev, loopback};

/// Where programs are looked for when the spec does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the program and gives its exit status. When this process then ends, the kernel kills what is left.
pub(super) fn run(spec: &Spec) -> Result<i32, SandboxError> {
    if getpid() != Pid::INIT {
        return Err(SandboxError::NotInit);
    }
    let layout = Layout::of_host().map_err(|source| CgroupError::Layout { source })?;
    if let Some(name) = &spec.cgroup {
        Group::new(&layout, name)?.join()?;
    }
    // After joining: the group we are in becomes the root of what is seen inside.
    super::unshare_the_rest().map_err(|(what, source)| SandboxError::Namespace { what, source })?;
    mount::make_all_private()?;
    sethostname(spec.hostname.as_bytes())
        .map_err(|errno| SandboxError::Hostname { hostname: spec.hostname.clone(), source: errno.into() })?;
    loopback::bring_up().map_err(|source| SandboxError::Loopback { source })?;
    build_root(spec, &layout)?;
    run_program(spec)
}

/// Makes the spec's root ours and mounts in it what a program expects.
///
/// Nothing is mounted or made in the new root before it is the root: until then an absolute link in it would lead
/// into the host's files.
fn build_root(spec: &Spec, layout: &Layout) -> Result<(), SandboxError> {
    // The sources are found while the host's root is in sight.
    let binds = spec.binds.iter().map(|bind| Detached::of(&bind.source)).collect::<Result<Vec<_>, _>>()?;
    let merged = mount::ephemeral_overlay(&spec.root, &spec.scratch)?;
    mount::pivot_into(&merged)?;

    mount::filesystem("proc", Path::new("/proc"), DATA_ONLY, "")?;
    mount::filesystem("sysfs", Path::new("/sys"), DATA_ONLY, "")?;
    dev::populate(Path::new("/dev"), dev::BASIC, "50%")?;
    mount::filesystem("tmpfs", Path::new("/run"), SCRATCH, "mode=0755")?;
    mount::filesystem("tmpfs", Path::new("/tmp"), SCRATCH, "mode=1777")?;
    cgroup::mount_all(layout, Path::new("/sys/fs/cgroup"), spec.cgroup.is_none())?;
    for (held, bind) in binds.into_iter().zip(&spec.binds) {
        held.attach(&bind.target, bind.read_only)?;
    }
    mount::make_all_shared()?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the child needs our standard streams; we die last, not it")]
fn run_program(spec: &Spec) -> Result<i32, SandboxError> {
    let program = spec.program()?;
    let mut command = Command::new(program);
    command.args(&spec.argv[1..]).env_clear().env("PATH", DEFAULT_PATH);
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    let failed = |source| SandboxError::Start { program: program.to_owned(), source };
    let child = Pid::from_child(&command.spawn().map_err(failed)?);
    loop {
        // Everybody: an orphan's parent is PID 1.
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Ok(exit_status(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                return Err(SandboxError::Wait { program: program.to_owned(), source: errno.into() });
            }
        }
    }
}

fn exit_status(status: WaitStatus) -> i32 {
    status
        .exit_status()
        .or_else(|| status.terminating_signal().map(|signal| 128 + signal))
        .unwrap_or(super::EXIT_NOT_MADE)
}
