//! Checks of CPUs, memory and disk.

use flotilla_core::Finding;

use super::Check;
use super::facts::Facts;

const MB: u64 = 1_000_000;
const GB: u64 = 1_000 * MB;

/// A control plane with nothing else on it.
const LEAST_MEMORY: u64 = 700 * MB;
const LITTLE_MEMORY: u64 = 2 * GB;
const LEAST_DISK: u64 = GB;
const LITTLE_DISK: u64 = 5 * GB;

pub(super) fn cpus(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("RSRC_FEW_CORES", 29);
    match facts.cpus {
        0 | 1 => CHECK.warning("CPUs: 1, so clusters start slowly", "give this machine two or more CPUs"),
        several => CHECK.good(format!("CPUs: {several}")),
    }
}

pub(super) fn memory(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("RSRC_INSUFFICIENT_MEMORY", 23);
    let (available, total) = (facts.available_memory, facts.total_memory);
    let text = format!("memory: {} available of {}", size(available), size(total));
    // By the total alone: what is available may be little because the cluster is running, and then `start` must do.
    if total < LEAST_MEMORY {
        CHECK.fatal(text, format!("use a machine with {} or more", size(LITTLE_MEMORY)))
    } else if available < LITTLE_MEMORY {
        CHECK.warning(text, "stop programs that you do not need, or limit nodes with --memory")
    } else {
        CHECK.good(text)
    }
}

pub(super) fn disk(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("RSRC_DISK_FULL", 26);
    const CURE: &str = "free some space, or set FLOTILLA_HOME to a directory on a larger file system";
    let home = facts.home.display();
    match &facts.free_disk {
        Ok(free) => {
            let text = format!("disk: {} free for {home}", size(*free));
            match *free {
                ..LEAST_DISK => CHECK.fatal(text, CURE),
                LEAST_DISK..LITTLE_DISK => CHECK.warning(text, CURE),
                _ => CHECK.good(text),
            }
        }
        Err(error) => CHECK.warning(
            format!("disk: cannot determine the free space for {home}: {error}"),
            "make its parent directories accessible",
        ),
    }
}

/// `640 MB`, `1.4 GB`, `24 GB`.
fn size(bytes: u64) -> String {
    if bytes < GB {
        format!("{} MB", bytes / MB)
    } else if bytes < 10 * GB {
        format!("{}.{} GB", bytes / GB, bytes % GB * 10 / GB)
    } else {
        format!("{} GB", bytes.saturating_add(GB / 2) / GB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_or_more() {
        assert_eq!(size(640 * MB + 1), "640 MB");
        assert_eq!(size(1_450 * MB), "1.4 GB");
        assert_eq!(size(9_999 * MB), "9.9 GB");
        assert_eq!(size(23_600 * MB), "24 GB");
        assert_eq!(size(u64::MAX), "18446744073 GB");
    }
}
