//! Everything on the guest that a cluster could leave behind.

use std::collections::BTreeSet;
use std::time::Duration;

use super::machine::Machine;
use crate::lab::wait_until;

/// Prints a line for each thing. Mounts without their numbers, and not those that systemd makes when something needs them;
/// processes that are in a control group of ours, and PID 1s of nodes wherever they are. Settings that stay raised, which
/// is documented, are not here.
const LIST: &str = r#"
cut -d ' ' -f 3- /proc/self/mountinfo | grep -v -e /run/credentials -e binfmt_misc | sed 's/^/mount /'
ip -brief link | sed 's/ .*//; s/^/link /'
ip -4 route show table all | sed 's/^/route /'
nft --stateless list ruleset | sed 's/^/rule /'
find /sys/fs/cgroup -path '*flotilla*' -type d | sed 's/^/group /'
grep --files-with-matches --no-messages /flotilla/ /proc/[0-9]*/cgroup | while read -r file; do
  echo "process $(tr '\0' ' ' <"${file%cgroup}cmdline")"
done
pgrep --full --list-full '^flotilla-init' | sed 's/^/process /'
ls -d /run/*flotilla* /tmp/*flotilla* /dev/shm/*flotilla* /var/lib/*flotilla* /etc/*flotilla* /srv/home/clusters/* 2>/dev/null | sed 's/^/file /'
cat /root/.kube/config 2>/dev/null | sed 's/^/kubeconfig /'
true
"#;

/// What there is on the guest.
#[derive(Debug)]
pub(super) struct Traces(BTreeSet<String>);

impl Traces {
    pub(super) fn take(guest: &mut Machine<'_>) -> Self {
        Self(guest.succeed(LIST).lines().map(str::to_owned).collect())
    }

    /// Fails with the difference, if there is one that stays: the kernel takes namespaces apart in its own time.
    #[track_caller]
    pub(super) fn assert_unchanged(&self, guest: &mut Machine<'_>, after: &str) {
        wait_until(&format!("the guest is as it was before, after {after}"), Duration::from_mins(1), || {
            let now = Self::take(guest);
            let missing = self.0.difference(&now.0).map(|line| format!("- {line}"));
            let added = now.0.difference(&self.0).map(|line| format!("+ {line}"));
            let difference: Vec<_> = missing.chain(added).collect();
            if difference.is_empty() { Ok(()) } else { Err(difference.join("\n")) }
        });
    }
}
