//! What root in a machine may do: a machine, and every program that enters it, has only the capabilities that Kubernetes needs.
//!
//! Privileged containers get what containerd itself has, which is no more than this.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet as Cap, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

use crate::syscall_filter;

/// What a machine keeps, and who needs it. docs/security.md has both tables.
///
/// Those that containerd gives to every container: chown, `dac_override`, fowner, fsetid, kill, mknod, `net_bind_service`,
/// `net_raw`, setfcap, setgid, setpcap, setuid, `sys_chroot`, `audit_write`.
const KEPT: &[Cap] = &[
    Cap::CHOWN,
    Cap::DAC_OVERRIDE,
    Cap::FOWNER,
    Cap::FSETID,
    Cap::KILL,
    Cap::SETGID,
    Cap::SETUID,
    Cap::SETPCAP,
    Cap::NET_BIND_SERVICE,
    Cap::NET_RAW,
    Cap::SYS_CHROOT,
    Cap::MKNOD,
    Cap::AUDIT_WRITE,
    Cap::SETFCAP,
    // CNI, kube-proxy, keepalived: links, routes, rules. The machine's network is its own.
    Cap::NET_ADMIN,
    Cap::NET_BROADCAST,
    // containerd, runc, kubelet: mounts, namespaces. With it the machine can undo what mounts alone protect.
    Cap::SYS_ADMIN,
    // runc reads /proc of its containers; `kubectl debug`.
    Cap::SYS_PTRACE,
    // The kubelet and runc: limits of processes, scores for running out of memory.
    Cap::SYS_RESOURCE,
    // keepalived, databases in pods: priorities, within the machine's share of the processors.
    Cap::SYS_NICE,
    // Pods that lock memory, within the machine's limit: databases, key stores, eBPF on older kernels.
    Cap::IPC_LOCK,
    Cap::IPC_OWNER,
    // File servers in pods.
    Cap::LEASE,
    // Parts of sys_admin, which would stand in for them.
    Cap::BPF,
    Cap::PERFMON,
    Cap::CHECKPOINT_RESTORE,
];

/// Takes away all other capabilities from this process, for good, and from whatever it starts; and of what the kept ones
/// allow, the system calls that no machine needs ([`syscall_filter`]).
pub(crate) fn limit() -> io::Result<()> {
    let kept = kept();
    let now = capabilities(None)?;
    // Also those that this program is too old to know.
    for number in 0..u64::BITS {
        let one = Cap::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Err(Errno::INVAL) => break,
            there => {
                if there? && !kept.contains(one) {
                    remove_capability_from_bounding_set(one)?;
                }
            }
        }
    }
    // Kernels of before 4.3 have no such set.
    let _ = clear_ambient_capability_set();
    let (effective, permitted) = (now.effective & kept, now.permitted & kept);
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable: Cap::empty() })?;
    syscall_filter::limit()
}

fn kept() -> Cap {
    KEPT.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What leads out of a machine, by what the audit found or the kernel's documentation says.
    const HARMFUL: [Cap; 15] = [
        Cap::DAC_READ_SEARCH,
        Cap::LINUX_IMMUTABLE,
        Cap::SYS_MODULE,
        Cap::SYS_RAWIO,
        Cap::SYS_PACCT,
        Cap::SYS_BOOT,
        Cap::SYS_TIME,
        Cap::SYS_TTY_CONFIG,
        Cap::AUDIT_CONTROL,
        Cap::AUDIT_READ,
        Cap::MAC_OVERRIDE,
        Cap::MAC_ADMIN,
        Cap::SYSLOG,
        Cap::WAKE_ALARM,
        Cap::BLOCK_SUSPEND,
    ];

    #[test]
    fn each_capability_is_kept_or_harmful_and_documented() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
        let document = std::fs::read_to_string(document).unwrap();
        let (kept_table, dropped_table) = document.split_once("Dropped:").unwrap();
        let harmful: Cap = HARMFUL.into_iter().collect();
        // The last one that the library has a name for.
        for number in 0..=Cap::CHECKPOINT_RESTORE.bits().trailing_zeros() {
            let one = Cap::from_bits_retain(1 << number);
            let (name, _) = one.iter_names().next().unwrap();
            assert_ne!(kept().contains(one), harmful.contains(one), "{name}");
            let table = if kept().contains(one) { kept_table } else { dropped_table };
            assert!(table.contains(&format!("`{name}`")), "docs/security.md does not list {name}");
        }
    }
}
