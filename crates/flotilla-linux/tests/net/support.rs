//! Network namespaces to try things in.

use std::fs::{File, read_link};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::Duration;

use flotilla_linux::host::Command;
use flotilla_linux::net;
use flotilla_linux::nft::Nft;
use flotilla_linux::process::Process;
use flotilla_linux::sysctl;
use rustix::process::{Pid, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs a test in a new network namespace that is gone with it; without root only says so.
pub(crate) fn in_new_namespace(test: impl FnOnce() + Send + 'static) {
    if !geteuid().is_root() {
        flotilla_testkit::skip("network namespaces need root");
        return;
    }
    let running = std::thread::spawn(|| {
        leave_network();
        test();
    });
    running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// A process with a network namespace of its own, such as a node's first one. Killed when dropped.
pub(crate) struct Node(Child, Process);

impl Node {
    pub(crate) fn start() -> Self {
        // In a thread of its own, so that the process is born in its namespace and never seen in another.
        let starting = std::thread::spawn(|| {
            leave_network();
            sleeper()
        });
        let child = starting.join().unwrap();
        let process = Process::open(Pid::from_child(&child)).unwrap();
        Self(child, process)
    }

    pub(crate) fn process(&self) -> &Process {
        &self.1
    }

    /// Gives a setting of its kernel's network a value.
    pub(crate) fn set(&self, setting: &str, value: &str) {
        self.inside(|| sysctl::set(setting, value).map(drop)).unwrap();
    }

    /// Runs `ip` in its namespace.
    pub(crate) fn ip(&self, arguments: &str) {
        self.inside(|| ip(arguments));
    }

    /// A socket in its namespace that waits for an answer for a while, but not for ever.
    pub(crate) fn socket(&self, address: &str) -> UdpSocket {
        self.inside(|| socket(address))
    }

    /// Does something in its namespace, in a thread of its own.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let pid = self.1.pid();
        std::thread::scope(|scope| {
            let working = scope.spawn(move || {
                let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            working.join().unwrap()
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs `ip` in the namespace of this thread.
pub(crate) fn ip(arguments: &str) {
    Command::new("ip").args(arguments.split(' ')).run().unwrap();
}

/// A socket in the namespace of this thread.
pub(crate) fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    // More than a lost first packet takes, also on a busy host: the kernel asks for its neighbour again after a second.
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// Who sent the next packet.
pub(crate) fn sender(socket: &UdpSocket) -> SocketAddr {
    socket.recv_from(&mut [0; 8]).unwrap().1
}

/// Runs a test with the host's nft in a new network namespace; without one only says so.
pub(crate) fn with_nft(test: impl FnOnce(&Nft) + Send + 'static) {
    if Command::new("nft").arg("--version").run().is_err() {
        flotilla_testkit::skip("there is no nft in PATH");
        return;
    }
    in_new_namespace(|| test(&Nft::on_host()));
}

/// The network namespace of this thread.
pub(crate) fn namespace() -> String {
    read_link("/proc/thread-self/ns/net").unwrap().to_string_lossy().into_owned()
}

fn leave_network() {
    let before = namespace();
    net::leave().unwrap();
    assert_ne!(namespace(), before, "the tests must not touch the network they were started in");
}

#[expect(clippy::disallowed_methods, reason = "it outlives the thread that starts it, unlike a host command")]
fn sleeper() -> Child {
    std::process::Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()
}
