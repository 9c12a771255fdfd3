//! The root of a machine: mounts, devices, control groups, and what it must not see or change of the host.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::system::sethostname;

use super::{MachineError, Spec, capacity, masks, user};
use crate::cgroup::{self, CgroupError, Layout};
use crate::enter::Files;
use crate::mount::{self, Attributes, DATA_ONLY_ATTR, Detached, MountError, SCRATCH};
use crate::sandbox::Bind;
use crate::{dev, loopback, process, sealed};

/// Settings of the whole host that a kubelet changes to these values, and refuses to work without.
const SYSCTLS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1\n"),
    ("vm/panic_on_oom", "0\n"),
    ("kernel/panic", "10\n"),
    ("kernel/panic_on_oops", "1\n"),
    ("kernel/keys/root_maxkeys", "1000000\n"),
    ("kernel/keys/root_maxbytes", "25000000\n"),
];

/// Where what is shown in place of the host's own files is kept.
pub(super) const SHOWN: &str = "/run/flotilla/shown";

/// The most that the directories in memory hold. What is in them is the machine's memory, or the host's if the machine has no
/// limit of its own.
const RUN: u64 = 1 << 30;
const TMP: u64 = 4 << 30;
const SHM: u64 = 1 << 30;

/// The size of a directory in memory: what it may hold at most, and never more than half of the machine's memory.
fn room(memory: u64, most: u64) -> String {
    (memory / 2).min(most).to_string()
}

/// Nothing is mounted or made in the new root before it is the root: until then an absolute link in it would lead
/// into the host's files.
pub(super) fn build(spec: &Spec) -> Result<Built<'_>, MachineError> {
    let layout = match spec.ids {
        None => Layout::of_host().map_err(|source| CgroupError::Layout { source })?,
        Some(_) => user::layout()?,
    };
    mount::make_all_private()?;
    sethostname(spec.hostname.as_bytes())
        .map_err(|errno| MachineError::Hostname { hostname: spec.hostname.clone(), source: errno.into() })?;
    loopback::bring_up().map_err(|source| MachineError::Make { path: "the loopback link".into(), source })?;
    // The sources are found while the host's root is in sight, or the stage.
    let sources = user::Sources::of(spec);
    let var = Detached::of(&sources.var)?;
    let binds = spec.binds.iter().zip(&sources.binds).map(|(bind, source)| source_of(bind, source, spec));
    let binds = binds.collect::<Result<Vec<_>, _>>()?;
    let shared = spec.shared.as_ref().zip(sources.shared.as_ref());
    let shared = shared.map(|(shared, source)| match &shared.image {
        _ if spec.ids.is_some() => Detached::of(source),
        Some(image) => Detached::handed_over(image),
        None => sealed::view(source, &mount::stage(&spec.folder)?),
    });
    let shared = shared.transpose()?;
    let mounts = sources.mounts.iter().map(|mount| Detached::with_mounts_of(mount));
    let mounts = mounts.collect::<Result<Vec<_>, _>>()?;
    let devices = spec.ids.map(|_| user::hold_devices()).transpose()?;
    let proc = Detached::filesystem("proc", DATA_ONLY_ATTR)?;
    let sys = Detached::filesystem("sysfs", DATA_ONLY_ATTR)?;
    let attributes = if spec.ids.is_some() { Attributes::User } else { Attributes::Trusted };
    let merged = mount::lasting_overlay(&sources.root, &sources.folder, attributes)?;
    mount::pivot_into(&merged)?;

    proc.attach(Path::new("/proc"), false)?;
    sys.attach_inside(Path::new("/sys"), &[])?;
    let memory = spec.capacity.memory.unwrap_or_else(|| process::host_size().memory);
    let (dev, shm) = (Path::new("/dev"), room(memory, SHM));
    match devices {
        None => dev::populate(dev, dev::BASIC.iter().chain(dev::OF_A_NODE), &shm)?,
        Some(devices) => dev::populate_with(dev, devices, &shm)?,
    }
    mount::filesystem("tmpfs", Path::new("/run"), SCRATCH, &format!("mode=0755,size={}", room(memory, RUN)))?;
    mount::filesystem("tmpfs", Path::new("/tmp"), SCRATCH, &format!("mode=1777,size={}", room(memory, TMP)))?;
    var.attach_inside(Path::new("/var"), &[])?;
    cgroup::mount_all(&layout, Path::new("/sys/fs/cgroup"), false)?;
    cgroup::delegate_here(&layout, Path::new("/sys/fs/cgroup"))?;
    for (held, bind) in binds.into_iter().zip(&spec.binds) {
        let at = held.attach_inside(&bind.target, &[])?;
        if bind.read_only {
            mount::make_read_only(&at)?;
        }
    }
    if let Some((held, shared)) = shared.zip(spec.shared.as_ref()) {
        held.attach_inside(&shared.target, &[])?;
    }
    for (name, target) in &spec.links {
        link(name, target)?;
    }
    guard_sysctls()?;
    show("/sys/class/dmi/id/product_uuid", &format!("{}\n", spec.uuid))?;
    show_boot()?;
    capacity::show(&spec.capacity)?;
    masks::apply()?;
    Ok(Built { mounts: mounts.into_iter().zip(&spec.mounts).collect(), own: &spec.own })
}

/// A read-only bind would be no protection: the machine's root could remount it. In a user namespace it cannot, since the mounts
/// of the stage are locked.
fn source_of(bind: &Bind, source: &Path, spec: &Spec) -> Result<Detached, MountError> {
    if bind.read_only && spec.ids.is_none() {
        sealed::view(source, &mount::stage(&spec.folder)?)
    } else {
        Detached::of(source)
    }
}

/// A root with everything of ours in it.
#[derive(Debug)]
pub struct Built<'a> {
    /// What its owner wants inside.
    mounts: Vec<(Detached, &'a Bind)>,
    own: &'a [PathBuf],
}

impl Built<'_> {
    /// Attaches what its owner wants inside. After everything of ours: nothing that we make may end up in a directory of the
    /// host's.
    pub fn finish(self) -> Result<(), MachineError> {
        for (held, mount) in self.mounts {
            let at = held.attach_inside(&mount.target, self.own)?;
            if mount.read_only {
                mount::make_all_read_only(&at)?;
            }
        }
        Ok(mount::make_all_shared()?)
    }
}

/// Makes the host's settings read-only, apart from those of the network, which are the machine's own.
fn guard_sysctls() -> Result<(), MachineError> {
    let all = Path::new("/proc/sys");
    let own = Path::new("/proc/sys/net");
    let network = Detached::of(own)?;
    Detached::of(all)?.attach(all, true)?;
    network.attach(own, false)?;
    for (name, value) in SYSCTLS {
        show(&format!("/proc/sys/{name}"), value)?;
    }
    // A node forwards for its pods.
    let forward = Path::new("/proc/sys/net/ipv4/ip_forward");
    fs::write(forward, "1").map_err(|source| MachineError::Make { path: forward.to_owned(), source })
}

/// Gives this boot an identifier of its own, which the kubelet reports: the host's is the same for all machines and for each
/// time that one of them is turned on.
fn show_boot() -> Result<(), MachineError> {
    let random = Path::new("/proc/sys/kernel/random/uuid");
    let boot = fs::read_to_string(random)
        .map_err(|source| MachineError::Make { path: random.to_owned(), source })?;
    show("/proc/sys/kernel/random/boot_id", &boot)
}

/// Shows a text in place of a file of the host's, if the host has that file.
pub(super) fn show(path: &str, text: &str) -> Result<(), MachineError> {
    if !Path::new(path).exists() {
        return Ok(());
    }
    let stand_in = Path::new(SHOWN).join(path.trim_start_matches('/').replace('/', "."));
    write(&stand_in, text)?;
    Ok(Detached::of(&stand_in)?.attach(Path::new(path), true)?)
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), MachineError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|source| MachineError::Make { path: path.to_owned(), source })
}

fn link(name: &Path, target: &Path) -> Result<(), MachineError> {
    let made = Files::below(Path::new("/")).and_then(|root| root.link(name, target));
    made.map_err(|source| MachineError::Make { path: name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_in_memory_leave_half_of_it_to_programs() {
        assert_eq!(room(64 << 30, TMP), (4_u64 << 30).to_string());
        assert_eq!(room(1 << 30, TMP), (1_u64 << 29).to_string());
    }
}
