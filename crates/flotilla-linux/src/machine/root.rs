//! The root of a machine: mounts, devices, control groups, and what it must not see or change of the host.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::system::sethostname;

use super::{MachineError, Spec, capacity};
use crate::cgroup::{self, CgroupError, Layout};
use crate::mount::{self, DATA_ONLY, Detached, SCRATCH};
use crate::sandbox::Bind;
use crate::{dev, loopback};

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

/// Nothing is mounted or made in the new root before it is the root: until then an absolute link in it would lead
/// into the host's files.
pub(super) fn build(spec: &Spec) -> Result<Built<'_>, MachineError> {
    let layout = Layout::of_host().map_err(|source| CgroupError::Layout { source })?;
    mount::make_all_private()?;
    sethostname(spec.hostname.as_bytes())
        .map_err(|errno| MachineError::Hostname { hostname: spec.hostname.clone(), source: errno.into() })?;
    loopback::bring_up().map_err(|source| MachineError::Make { path: "the loopback link".into(), source })?;
    // The sources are found while the host's root is in sight.
    let var = Detached::of(&spec.var)?;
    let binds = spec.binds.iter().map(|bind| Detached::of(&bind.source)).collect::<Result<Vec<_>, _>>()?;
    let mounts = spec.mounts.iter().map(|mount| Detached::with_mounts_of(&mount.source));
    let mounts = mounts.collect::<Result<Vec<_>, _>>()?;
    let merged = mount::lasting_overlay(&spec.root, &spec.folder)?;
    mount::pivot_into(&merged)?;

    mount::filesystem("proc", Path::new("/proc"), DATA_ONLY, "")?;
    mount::filesystem("sysfs", Path::new("/sys"), DATA_ONLY, "")?;
    dev::populate(Path::new("/dev"), dev::BASIC.iter().chain(dev::OF_A_NODE))?;
    mount::filesystem("tmpfs", Path::new("/run"), SCRATCH, "mode=0755")?;
    mount::filesystem("tmpfs", Path::new("/tmp"), SCRATCH, "mode=1777")?;
    var.attach(Path::new("/var"), false)?;
    cgroup::mount_all(&layout, Path::new("/sys/fs/cgroup"), false)?;
    cgroup::delegate_here(&layout, Path::new("/sys/fs/cgroup"))?;
    for (held, bind) in binds.into_iter().zip(&spec.binds) {
        held.attach(&bind.target, bind.read_only)?;
    }
    for (name, target) in &spec.links {
        link(name, target)?;
    }
    guard_sysctls()?;
    show("/sys/class/dmi/id/product_uuid", &format!("{}\n", spec.uuid))?;
    show_boot()?;
    capacity::show(&spec.capacity)?;
    Ok(Built { mounts: mounts.into_iter().zip(&spec.mounts).collect() })
}

/// A root with everything of ours in it.
#[derive(Debug)]
pub struct Built<'a> {
    /// What its owner wants inside.
    mounts: Vec<(Detached, &'a Bind)>,
}

impl Built<'_> {
    /// Attaches what its owner wants inside. After everything of ours: nothing that we make may end up in a directory of the
    /// host's.
    pub fn finish(self) -> Result<(), MachineError> {
        for (held, mount) in self.mounts {
            held.attach(&mount.target, false)?;
            if mount.read_only {
                mount::make_all_read_only(&mount.target)?;
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
    if fs::read_link(name).is_ok_and(|there| there == target) {
        return Ok(());
    }
    // Something else may have been there.
    let _ = fs::remove_file(name);
    symlink(target, name).map_err(|source| MachineError::Make { path: name.to_owned(), source })
}
