//! The loopback link of a new network namespace, which starts out down.

use std::io;

use rustix::ioctl::{Setter, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `SIOCSIFFLAGS`: sets the flags of a link (netdevice(7)).
const SET_LINK_FLAGS: u32 = 0x8914;

/// `IFF_UP`
const UP: i16 = 0x1;

/// `struct ifreq` with its flags member; the padding fills it up to the size of its largest one.
#[repr(C)]
struct LinkFlags {
    name: [u8; 16],
    flags: i16,
    padding: [u8; 22],
}

/// Turns the loopback link of this network namespace on; 127.0.0.1 and `::1` work afterwards.
#[expect(unsafe_code, reason = "an ioctl")]
pub fn bring_up() -> io::Result<()> {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request = LinkFlags { name: [0; 16], flags: UP, padding: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: SIOCSIFFLAGS reads a `struct ifreq`, which `LinkFlags` has the layout and the size of (40 bytes).
    unsafe { ioctl(any, Setter::<SET_LINK_FLAGS, LinkFlags>::new(request))? };
    Ok(())
}
