//! The machine that QEMU emulates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flotilla_linux::host;

use super::image::Image;
use super::session::{Done, Session};
use crate::lab::wait_until;

/// Processors, memory and swap of the guest.
const PROCESSORS: &str = "2";
const MEMORY: &str = "5G";
const SWAP: u64 = 1 << 30;

/// What spares an emulated processor work, and lets the guest boot in half the time.
const KERNEL_ARGUMENTS: &str = "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=0 mitigations=off nokaslr tsc=reliable \
     no_timer_check random.trust_cpu=on cryptomgr.notests audit=0 nowatchdog";

/// How long a guest takes to boot or to shut down, on however busy a machine.
const POWER: Duration = Duration::from_mins(6);
/// The same for a script.
const SCRIPT: Duration = Duration::from_mins(15);

/// A guest with disks of its own in a directory, and whatever was written to them. Gone when dropped.
pub(super) struct Machine<'a> {
    image: &'a Image,
    directory: PathBuf,
    running: Option<(Child, Session)>,
}

impl<'a> Machine<'a> {
    /// Makes the disks. In the directory is the one with the program and its state directory, too: `srv`.
    pub(super) fn new(image: &'a Image, directory: &Path) -> Self {
        let machine = Self { image, directory: directory.to_owned(), running: None };
        let copied =
            host::Command::new("cp").arg("--sparse=always").args([image.disk(), machine.path("root")]);
        copied.run().unwrap();
        fs::File::create(machine.path("swap")).unwrap().set_len(SWAP).unwrap();
        host::Command::new("mkswap").args(["--label", "swap"]).arg(machine.path("swap")).run().unwrap();
        machine
    }

    /// Switches it on, and waits until it takes scripts.
    pub(super) fn boot(&mut self) {
        let qemu = self.qemu().spawn().unwrap();
        let session = Session::connect(&self.path("session"));
        let (_, session) = self.running.insert((qemu, session));
        if let Err(error) = session.run("true", POWER) {
            panic!("the guest does not boot: {error}\n{}", self.console());
        }
    }

    /// Restarts the guest the way a person does, with everything that runs in it.
    pub(super) fn reboot(&mut self) {
        self.succeed("systemctl reboot --no-block");
        let (mut qemu, _) = self.running.take().unwrap();
        wait_until("the guest has shut down", POWER, || {
            qemu.try_wait().unwrap().ok_or_else(|| self.console())
        });
        self.boot();
    }

    /// Runs a script to its end, however it ends.
    pub(super) fn run(&mut self, script: &str) -> Done {
        let (_, session) = self.running.as_mut().unwrap();
        session.run(script, SCRIPT).unwrap_or_else(|error| panic!("{error}\n{}", self.console()))
    }

    /// Runs a script that must succeed, and gives what it printed.
    #[track_caller]
    pub(super) fn succeed(&mut self, script: &str) -> String {
        let done = self.run(script);
        assert_eq!(done.status, 0, "{script}: {}{}", done.output, done.errors);
        done.output
    }

    /// The end of what it wrote to its console.
    fn console(&self) -> String {
        let text = fs::read(self.path("console")).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(4000)..]).into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    #[expect(clippy::disallowed_methods, reason = "it runs beside the test")]
    fn qemu(&self) -> Command {
        // Few machines have a KVM that boots a stock kernel inside of whatever they are themselves: emulated, it is the
        // same everywhere.
        let mut qemu = Command::new("nice");
        qemu.args(["-n", "10", "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]);
        qemu.args(["-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem"]);
        qemu.args(["-smp", PROCESSORS, "-m", MEMORY, "-no-reboot", "-append", KERNEL_ARGUMENTS]);
        qemu.arg("-kernel").arg(self.image.kernel()).arg("-initrd").arg(self.image.initramfs());
        for disk in ["root", "srv", "swap"] {
            let file = self.path(disk);
            qemu.arg("-drive").arg(format!("file={},format=raw,if=virtio,cache=unsafe", file.display()));
        }
        // A link with a default route, which leads nowhere.
        qemu.args(["-netdev", "user,id=uplink,restrict=on"]);
        qemu.args(["-device", "virtio-net-pci,netdev=uplink,romfile=", "-device", "virtio-rng-pci"]);
        qemu.arg("-serial").arg(format!("file:{}", self.path("console").display()));
        let socket = format!("socket,id=session,server=on,wait=off,path={}", self.path("session").display());
        qemu.args(["-chardev", &socket, "-device", "virtio-serial-pci"]);
        qemu.args(["-device", "virtserialport,chardev=session,name=session"]);
        qemu.stdin(Stdio::null());
        qemu
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        if let Some((qemu, _)) = &mut self.running {
            drop(qemu.kill());
            drop(qemu.wait());
        }
    }
}
