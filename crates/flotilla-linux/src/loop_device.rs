//! Block devices made of files: `/dev/loopN` (loop(4)).

use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

const CONTROL: &str = "/dev/loop-control";
/// How often to ask for a free device: another process may have been faster.
const ATTEMPTS: u32 = 16;

/// `linux/loop.h`.
const GET_FREE: libc::c_ulong = 0x4c82;
const CONFIGURE: libc::c_ulong = 0x4c0a;
const GET_STATUS: libc::c_ulong = 0x4c05;
const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;
const DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A device that shows a file. Without this and without a mount it is free again.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    _held: File,
}

/// Whether there is a free device. A container may have the way to make one and no file in `/dev` for it.
pub(crate) fn is_supported() -> bool {
    let free = File::open(CONTROL).and_then(|control| ioctl(&control, GET_FREE, 0));
    free.is_ok_and(|number| file_of(number).exists())
}

fn file_of(number: i32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// The device that shows this file read-only: the one that exists, else a new one. Its users must not ask for it at the same time.
pub(crate) fn of(path: &Path) -> io::Result<LoopDevice> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if let Some(found) = existing(metadata.dev(), metadata.ino())? {
        return Ok(found);
    }
    let control = File::open(CONTROL)?;
    let mut attempts = 0;
    loop {
        let number = ioctl(&control, GET_FREE, 0)?;
        match configured(number, &file, path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && attempts < ATTEMPTS => attempts += 1,
            device => return device,
        }
    }
}

fn existing(device: u64, inode: u64) -> io::Result<Option<LoopDevice>> {
    let device = u64::from(minor(device) & 0xff)
        | u64::from(major(device)) << 8
        | u64::from(minor(device) & !0xff) << 12;
    for entry in fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let is_in_use = Path::new("/sys/block").join(&name).join("loop").exists();
        if !is_in_use {
            continue;
        }
        let path = Path::new("/dev").join(name);
        // It may be free again by now, or without a file in /dev in the container that we are in.
        let Ok(held) = File::open(&path) else { continue };
        let Ok(info) = status(&held) else { continue };
        let whole = info.offset == 0 && info.size_limit == 0 && info.flags & READ_ONLY != 0;
        if whole && (info.device, info.inode) == (device, inode) {
            return Ok(Some(LoopDevice { path, _held: held }));
        }
    }
    Ok(None)
}

fn configured(number: i32, file: &File, path: &Path) -> io::Result<LoopDevice> {
    let device = file_of(number);
    let held = File::open(&device)?;
    let mut config = Config {
        file: u32::try_from(file.as_raw_fd()).expect("a descriptor is not negative"),
        block_size: 4096,
        info: empty(),
        reserved: [0; 8],
    };
    // Past the page cache of the file: the mounted files have one of their own.
    config.info.flags = READ_ONLY | AUTOCLEAR | DIRECT_IO;
    // For `losetup`: as much of the path as fits.
    let name = path.as_os_str().as_encoded_bytes();
    let shown = name.len().min(config.info.file_name.len() - 1);
    config.info.file_name[..shown].copy_from_slice(&name[..shown]);
    ioctl(&held, CONFIGURE, (&raw const config) as libc::c_ulong)?;
    Ok(LoopDevice { path: device, _held: held })
}

fn status(device: &File) -> io::Result<Info> {
    let mut info = empty();
    ioctl(device, GET_STATUS, (&raw mut info) as libc::c_ulong)?;
    Ok(info)
}

#[expect(unsafe_code, reason = "zeroes for a struct of the kernel")]
fn empty() -> Info {
    // SAFETY: all of its fields are integers.
    unsafe { mem::zeroed() }
}

/// The argument is a number, or a pointer to what the request wants.
#[expect(unsafe_code, reason = "rustix has no loop devices")]
fn ioctl(file: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: the callers are in this file. Each passes what loop(4) asks for with its request, and what a pointer leads to
    // lives until the call returns.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
