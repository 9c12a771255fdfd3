//! Ids of the host that nobody has, for user namespaces of nodes.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use flotilla_core::IdRange;

use crate::error::NativeError;

/// Where ranges are taken from: no distribution hands these out, and systemd, which documents who has which, neither
/// (`UIDS-GIDS.md`). Whole ranges only.
const FIRST: u32 = 0x7000_0000;
const END: u32 = 0x7ffe_0000;

/// Ranges that neither somebody of this host has, nor `taken`. Nothing of what was found is written down: whoever gets them does
/// that.
pub(super) fn free(home: &Path, taken: &[IdRange], count: usize) -> Result<Vec<IdRange>, NativeError> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut taken = taken.to_vec();
    for file in ["/etc/subuid", "/etc/subgid"] {
        taken.extend(delegated(&read(file)));
    }
    for file in ["/etc/passwd", "/etc/group"] {
        taken.extend(own(&read(file)));
    }
    taken.extend(in_use());
    let ours = [mapped(&read("/proc/self/uid_map")), mapped(&read("/proc/self/gid_map"))];
    choose(start(home), &taken, &ours, count).ok_or(NativeError::NoIdsLeft)
}

/// Where this state directory begins to look: nodes that are off are known only to their own one.
fn start(home: &Path) -> u32 {
    let mut hasher = DefaultHasher::new();
    home.hash(&mut hasher);
    let slots = u64::from((END - FIRST) / IdRange::SIZE);
    u32::try_from(hasher.finish() % slots).unwrap_or_default()
}

/// The first free ranges from the one with this number on. `ours` are the ids that our own user namespace has, of either kind.
fn choose(start: u32, taken: &[IdRange], ours: &[Vec<IdRange>; 2], count: usize) -> Option<Vec<IdRange>> {
    let slots = (END - FIRST) / IdRange::SIZE;
    let ranges = (0..slots).map(|number| {
        let slot = (start + number) % slots;
        IdRange { first_id: FIRST + slot * IdRange::SIZE, count: IdRange::SIZE }
    });
    let is_free = |range: &IdRange| !taken.iter().any(|taken| taken.overlaps(range));
    let is_ours = |range: &IdRange| ours.iter().all(|ours| ours.iter().any(|all| contains(*all, *range)));
    let found: Vec<_> = ranges.filter(|range| is_free(range) && is_ours(range)).take(count).collect();
    (found.len() == count).then_some(found)
}

fn contains(all: IdRange, range: IdRange) -> bool {
    let end = |range: IdRange| u64::from(range.first_id) + u64::from(range.count);
    all.first_id <= range.first_id && end(range) <= end(all)
}

/// What subuid(5) gives to users: `name:first:count`.
fn delegated(text: &str) -> impl Iterator<Item = IdRange> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(1);
        let [first_id, count] = [fields.next()?, fields.next()?].map(|field| field.trim().parse().ok());
        Some(IdRange { first_id: first_id?, count: count? })
    })
}

/// The ids of users or groups: `name:password:id:…`.
fn own(text: &str) -> impl Iterator<Item = IdRange> {
    let ids = text.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok());
    ids.map(|first_id| IdRange { first_id, count: 1 })
}

/// The ids of a map, as they are inside: `inside outside count`.
fn mapped(map: &str) -> Vec<IdRange> {
    ranges(map, 0)
}

fn ranges(map: &str, column: usize) -> Vec<IdRange> {
    let range = |line: &str| {
        let fields: Vec<u32> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        Some(IdRange { first_id: *fields.get(column)?, count: *fields.get(2)? })
    };
    map.lines().filter_map(range).collect()
}

/// The ids of user namespaces that processes are in: nodes of other state directories, and other programs' containers.
fn in_use() -> Vec<IdRange> {
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(number);
    let maps = processes.flat_map(|pid| {
        ["uid_map", "gid_map"].map(|map| fs::read_to_string(format!("/proc/{pid}/{map}")).unwrap_or_default())
    });
    // Those of processes in our own namespace are all there are.
    let mut found: Vec<_> = maps.flat_map(|map| ranges(&map, 1)).filter(|range| range.first_id > 0).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: IdRange = IdRange { first_id: 0, count: u32::MAX };

    fn range(slot: u32) -> IdRange {
        IdRange { first_id: FIRST + slot * IdRange::SIZE, count: IdRange::SIZE }
    }

    #[test]
    fn ranges_are_free_and_differ_and_begin_elsewhere_for_each_state_directory() {
        let ours = [vec![ALL], vec![ALL]];
        assert_eq!(choose(7, &[], &ours, 2).unwrap(), [range(7), range(8)]);
        // One id of a range is enough, whoever has it.
        let taken = [range(7), IdRange { first_id: range(8).first_id + 5, count: 1 }];
        assert_eq!(choose(7, &taken, &ours, 1).unwrap(), [range(9)]);
        let last = (END - FIRST) / IdRange::SIZE - 1;
        assert_eq!(choose(last, &[], &ours, 2).unwrap(), [range(last), range(0)]);
        assert_ne!(start(Path::new("/root/.flotilla")), start(Path::new("/home/ada/.flotilla")));
        assert!(start(Path::new("/x")) <= last);
    }

    #[test]
    fn a_host_that_is_itself_a_container_may_have_no_ids() {
        let few = [vec![IdRange { first_id: 0, count: 65536 }], vec![ALL]];
        assert_eq!(choose(0, &[], &few, 1), None);
        assert_eq!(choose(0, &[ALL], &[vec![ALL], vec![ALL]], 1), None);
    }

    #[test]
    fn what_others_have_is_read() {
        let subuid = "ada:100000:65536\n# a comment\nroot:1879048192:65536\nbroken:1\n";
        let found: Vec<_> = delegated(subuid).map(|range| range.first_id).collect();
        assert_eq!(found, [100_000, 1_879_048_192]);
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1879048200:1000::/home/ada:/bin/sh\n+::::::\n";
        assert_eq!(own(passwd).map(|range| range.first_id).collect::<Vec<_>>(), [0, 1_879_048_200]);
        let map = "         0 1879048192      65536\n     65536     500000 10\n";
        assert_eq!(
            mapped(map),
            [IdRange { first_id: 0, count: 65536 }, IdRange { first_id: 65536, count: 10 }]
        );
        assert_eq!(ranges(map, 1)[1], IdRange { first_id: 500_000, count: 10 });
    }

    #[test]
    fn this_host_has_ranges_left() {
        let home = Path::new("/x");
        let first = free(home, &[], 1).unwrap();
        assert_eq!(first, free(home, &[], 1).unwrap(), "nothing is handed out");
        assert_ne!(first, free(home, &first, 1).unwrap());
    }
}
