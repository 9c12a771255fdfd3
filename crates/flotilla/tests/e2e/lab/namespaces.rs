//! A network and mounts of their own, for what stands beside a cluster: another host, a neighbour in the LAN.

use std::fs;
use std::process::{Child, Command};

use super::{PATIENCE, bundle, entering, wait_until};

/// Held by a process that does nothing. Gone when dropped. Unlike those of `ip netns` they leave no mount on the host.
pub(crate) struct Namespaces(Child);

impl Namespaces {
    #[expect(clippy::disallowed_methods, reason = "it is killed when dropped")]
    pub(crate) fn new() -> Self {
        let holder = Self(Command::new("unshare").args(["-n", "-m", "sleep", "infinity"]).spawn().unwrap());
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
        wait_until("namespaces of its own", PATIENCE, || {
            if namespace(&holder.id().to_string()) == namespace("self") {
                Err("not yet".to_owned())
            } else {
                Ok(())
            }
        });
        holder
    }

    /// The process that holds them.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// A script in them. `$ROOT` is the bundle's root.
    #[expect(clippy::disallowed_methods, reason = "a test starts servers with it, and kills them")]
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).env("ROOT", bundle().join("rootfs"));
        entering(self.id(), &shell)
    }

    /// Runs a script in them, which has to succeed. Gives what it printed.
    pub(crate) fn run(&self, script: &str) -> String {
        let output = self.shell(script).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
