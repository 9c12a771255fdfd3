//! Taps: links whose packets a process reads and writes, such as that of a virtual machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use super::link::TUN;
use super::{Changed, Net, NetError};

/// `linux/if_tun.h`.
const SET_INTERFACE: libc::c_ulong = 0x4004_54ca;
const SET_PERSISTENT: libc::c_ulong = 0x4004_54cb;
const TAP: i16 = 2;
const NO_PACKET_INFORMATION: i16 = 0x1000;

/// `struct ifreq`, with the member of its union that is used here.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    unused: [u8; 22],
}

/// A tap that is a port of a bridge.
#[derive(Debug, Clone, Copy)]
pub struct Tap<'a> {
    pub name: &'a str,
    /// Says whose it is.
    pub alias: &'a str,
    pub bridge: &'a str,
}

impl Net {
    /// Makes a tap on a bridge, with the bridge's MTU. It stays when no process holds it.
    ///
    /// One of that name that is ours is kept, whoever holds it, and put into the bridge again. The namespace must be that of
    /// this thread.
    pub fn ensure_tap(&self, tap: &Tap<'_>) -> Result<Changed, NetError> {
        let bridge = self.link(tap.bridge)?;
        if let Some(link) = self.find_link_of(tap.name, TUN, tap.alias)? {
            return self.ensure_in_bridge(&link, tap.alias, &bridge);
        }
        let failed = |source| NetError::MakeLink { link: tap.name.to_owned(), kind: "tap", source };
        let held = hold(tap.name).map_err(failed)?;
        self.ensure_in_bridge(&self.link(tap.name)?, tap.alias, &bridge)?;
        // Last: if we are killed before, nothing is left.
        ioctl(&held, SET_PERSISTENT, 1).map_err(failed)?;
        Ok(Changed::Yes)
    }
}

/// Takes hold of a tap of this thread's namespace: of a new one, if there is none of that name.
fn hold(name: &str) -> io::Result<File> {
    let mut request = Request { name: [0; 16], flags: TAP | NO_PACKET_INFORMATION, unused: [0; 22] };
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    ioctl(&file, SET_INTERFACE, &raw const request as libc::c_ulong)?;
    Ok(file)
}

/// The argument is a number, or a pointer to what the request wants.
#[expect(unsafe_code, reason = "rustix has no taps")]
fn ioctl(file: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the callers are in this file. Each passes what if_tun.h asks for with its request, and what a pointer leads to
    // lives until the call returns.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::UdpSocket;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::net::leave;

    #[test]
    fn who_holds_a_tap_reads_what_is_sent_by_the_bridge() {
        if !rustix::process::geteuid().is_root() {
            flotilla_testkit::skip("network namespaces need root");
            return;
        }
        let running = std::thread::spawn(|| {
            leave().unwrap();
            let net = Net::here().unwrap();
            net.ensure_bridge("fl-test", "flotilla/test", "10.89.0.1/24".parse().unwrap(), 1400).unwrap();
            let tap = Tap { name: "fl-tap", alias: "flotilla/test/vm", bridge: "fl-test" };
            net.ensure_tap(&tap).unwrap();
            let mut held = hold(tap.name).unwrap();
            assert_eq!(net.ensure_tap(&tap).unwrap(), Changed::No, "it is kept while somebody holds it");
            let socket = UdpSocket::bind("10.89.0.1:0").unwrap();
            socket.send_to(b"hello", "10.89.0.2:4000").unwrap();
            // The host asks who has the address.
            let (mut frame, patience) = ([0; 2048], Timespec::try_from(Duration::from_secs(30)).unwrap());
            loop {
                let ready = poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&patience)).unwrap();
                assert_eq!(ready, 1, "nothing is heard");
                let length = held.read(&mut frame).unwrap();
                if frame[12..14] == [8, 6] && frame[..length].ends_with(&[10, 89, 0, 2]) {
                    break;
                }
            }
        });
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}
