//! The format: EROFS without compression, as the kernel documents it (`Documentation/filesystems/erofs.rst`, `erofs_fs.h`).
//!
//! ```text
//! 1024  superblock │ inodes of 64 bytes, each followed by its attributes │ blocks: directories, links, files
//! ```
//!
//! The same content gives the same bytes: times are not kept. An inode's number is its place in units of 32 bytes.

use std::collections::HashMap;
use std::ffi::{CStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::fs::{lgetxattr, llistxattr, major, minor};
use rustix::io::Errno;

const MAGIC: u32 = 0xe0f5_e1e2;
const SUPERBLOCK: u64 = BEFORE as u64;
/// Left to boot loaders.
const BEFORE: usize = 1024;
/// Where the superblock ends and the first inode, that of the root, begins.
const INODES: u64 = SUPERBLOCK + 128;
const BLOCK: u64 = BLOCK_BYTES as u64;
const BLOCK_BYTES: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u8 = 12;
const INODE: u64 = INODE_BYTES as u64;
const INODE_BYTES: usize = 64;
/// What inode numbers count in.
const SLOT: u64 = 32;
const DIRENT: usize = 12;
/// As much as an attribute, or a list of their names, can be (listxattr(2)).
const LONGEST: usize = 64 << 10;

/// Attributes that make a file of a layer what it is: an overlay's marks, capabilities of programs, the image's own. Others
/// (labels of `SELinux`) are the host's business. With the numbers that stand for the beginnings of their names.
const KEPT: [(&[u8], &[u8], u8); 3] = [
    (b"trusted.overlay.", b"trusted.", 4),
    (b"security.capability", b"security.", 6),
    (b"user.", b"user.", 1),
];
/// Point to a file of the file system that the directory is on.
const OF_ONE_FILE_SYSTEM: [&[u8]; 2] = [b"trusted.overlay.origin", b"trusted.overlay.uuid"];

/// A file, a directory or whatever else.
struct Node {
    path: PathBuf,
    metadata: Metadata,
    /// Encoded, or nothing.
    attributes: Vec<u8>,
    content: Content,
    names: u32,
    /// Of its inode.
    number: u64,
    /// Where its content begins.
    block: u64,
}

enum Content {
    /// Its entries, sorted: the kernel searches by halving. Blocks hold as many as fit.
    Directory {
        entries: Vec<(Vec<u8>, usize)>,
        blocks: Vec<std::ops::Range<usize>>,
    },
    Link(Vec<u8>),
    File,
    /// A device, a pipe or a socket. A character device 0:0 says that a file of the layer below is gone.
    Special,
}

/// Whether the file has the size that it says it has.
pub(super) fn is_whole(image: &Path) -> io::Result<bool> {
    let file = match File::open(image) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut head = [0; 40];
    match file.read_exact_at(&mut head, SUPERBLOCK) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    Ok(word(0) == MAGIC && u64::from(word(36)) * BLOCK == file.metadata()?.len())
}

/// Writes the image of a directory.
pub(super) fn write(directory: &Path, id: &str, out: &mut impl Write) -> io::Result<()> {
    let mut nodes = collect(directory)?;
    let mut end = INODES;
    for node in &mut nodes {
        node.number = end / SLOT;
        end += (INODE + node.attributes.len() as u64).next_multiple_of(INODE);
    }
    let mut blocks = end.div_ceil(BLOCK);
    for node in &mut nodes {
        node.block = blocks;
        blocks += node.size().div_ceil(BLOCK);
    }
    out.write_all(&[0; BEFORE])?;
    out.write_all(&superblock(&nodes, id, blocks)?)?;
    for (place, node) in nodes.iter().enumerate() {
        out.write_all(&node.inode(place)?)?;
        out.write_all(&node.attributes)?;
        pad(out, INODE + node.attributes.len() as u64, INODE)?;
    }
    pad(out, end, BLOCK)?;
    nodes.iter().try_for_each(|node| node.write_content(&nodes, out))
}

/// All that is below a directory, itself first. Each directory's second entry leads to its parent.
fn collect(directory: &Path) -> io::Result<Vec<Node>> {
    let mut nodes = vec![Node::read(directory.to_owned(), fs::symlink_metadata(directory)?)?];
    let mut seen = HashMap::new();
    let mut todo = vec![(0, 0)];
    while let Some((place, parent)) = todo.pop() {
        let mut names: Vec<OsString> = fs::read_dir(&nodes[place].path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<_>>()?;
        names.sort();
        let mut entries = vec![(b".".to_vec(), place), (b"..".to_vec(), parent)];
        for name in names {
            let path = nodes[place].path.join(&name);
            let metadata = fs::symlink_metadata(&path)?;
            let is_directory = metadata.is_dir();
            let fresh = nodes.len();
            let file = (metadata.dev(), metadata.ino());
            let child = if is_directory { fresh } else { *seen.entry(file).or_insert(fresh) };
            if child == fresh {
                nodes.push(Node::read(path, metadata)?);
            }
            nodes[child].names += 1;
            if is_directory {
                todo.push((fresh, place));
                nodes[place].names += 1;
            }
            entries.push((name.into_vec(), child));
        }
        entries.sort();
        let blocks = packed(&entries);
        nodes[place].content = Content::Directory { entries, blocks };
    }
    // Its own name, as every directory has it in its parent.
    nodes[0].names += 1;
    Ok(nodes)
}

/// Which entries go into which block.
fn packed(entries: &[(Vec<u8>, usize)]) -> Vec<std::ops::Range<usize>> {
    let (mut blocks, mut first, mut used) = (Vec::new(), 0, 0);
    for (place, (name, _)) in entries.iter().enumerate() {
        if used + DIRENT + name.len() > BLOCK_BYTES {
            blocks.push(first..place);
            (first, used) = (place, 0);
        }
        used += DIRENT + name.len();
    }
    blocks.push(first..entries.len());
    blocks
}

impl Node {
    fn read(path: PathBuf, metadata: Metadata) -> io::Result<Self> {
        let kind = metadata.file_type();
        let (content, names) = if kind.is_dir() {
            // One for its own dot.
            (Content::Directory { entries: Vec::new(), blocks: Vec::new() }, 1)
        } else if kind.is_symlink() {
            (Content::Link(fs::read_link(&path)?.into_os_string().into_vec()), 0)
        } else if kind.is_file() {
            (Content::File, 0)
        } else {
            (Content::Special, 0)
        };
        let attributes = attributes(&path)?;
        Ok(Self { path, metadata, attributes, content, names, number: 0, block: 0 })
    }

    fn size(&self) -> u64 {
        match &self.content {
            Content::Directory { entries, blocks } => {
                let last = blocks.last().map_or(0..0, Clone::clone);
                let used: usize = entries[last].iter().map(|(name, _)| DIRENT + name.len()).sum();
                (blocks.len() as u64 - 1) * BLOCK + used as u64
            }
            Content::Link(target) => target.len() as u64,
            Content::File => self.metadata.len(),
            Content::Special => 0,
        }
    }

    fn inode(&self, place: usize) -> io::Result<Vec<u8>> {
        let metadata = &self.metadata;
        let attributes = self.attributes.len();
        // Counted in words of four bytes; the head of twelve counts as one.
        let attributes = if attributes == 0 { 0 } else { (attributes - 12) / 4 + 1 };
        let place_or_device = match self.content {
            Content::Special => device(metadata.rdev()),
            _ => fitting(self.block)?,
        };
        let mut inode = Vec::with_capacity(INODE_BYTES);
        // The long form of an inode, its content in blocks of its own.
        inode.extend(1_u16.to_le_bytes());
        inode.extend(u16::try_from(attributes).map_err(too_large)?.to_le_bytes());
        inode.extend(u16::try_from(metadata.mode()).map_err(too_large)?.to_le_bytes());
        inode.extend([0; 2]);
        inode.extend(self.size().to_le_bytes());
        inode.extend(place_or_device.to_le_bytes());
        inode.extend(fitting(place as u64 + 1)?.to_le_bytes());
        inode.extend(metadata.uid().to_le_bytes());
        inode.extend(metadata.gid().to_le_bytes());
        // No time, so that the same content gives the same bytes.
        inode.extend([0; 12]);
        inode.extend(self.names.to_le_bytes());
        inode.resize(INODE_BYTES, 0);
        Ok(inode)
    }

    fn write_content(&self, nodes: &[Self], out: &mut impl Write) -> io::Result<()> {
        match &self.content {
            Content::Directory { entries, blocks } => {
                for (place, block) in blocks.iter().enumerate() {
                    let bytes = directory_block(&entries[block.clone()], nodes);
                    out.write_all(&bytes)?;
                    if place + 1 < blocks.len() {
                        pad(out, bytes.len() as u64, BLOCK)?;
                    }
                }
            }
            Content::Link(target) => out.write_all(target)?,
            Content::File => {
                let copied = io::copy(&mut File::open(&self.path)?.take(self.size()), out)?;
                if copied != self.size() {
                    return Err(io::Error::other(format!("{} has become shorter", self.path.display())));
                }
            }
            Content::Special => {}
        }
        pad(out, self.size(), BLOCK)
    }

    /// How a directory's entry names its kind.
    fn kind(&self) -> u8 {
        let kind = self.metadata.file_type();
        let kinds = [
            kind.is_file(),
            kind.is_dir(),
            kind.is_char_device(),
            kind.is_block_device(),
            kind.is_fifo(),
            kind.is_socket(),
            kind.is_symlink(),
        ];
        (1..).zip(kinds).find_map(|(number, is_it)| is_it.then_some(number)).unwrap_or_default()
    }
}

/// Entries of a fixed size first, then their names.
fn directory_block(entries: &[(Vec<u8>, usize)], nodes: &[Node]) -> Vec<u8> {
    let mut at = entries.len() * DIRENT;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    for (name, place) in entries {
        block.extend(nodes[*place].number.to_le_bytes());
        block.extend(u16::try_from(at).expect("less than a block").to_le_bytes());
        block.extend([nodes[*place].kind(), 0]);
        at += name.len();
    }
    block.extend(entries.iter().flat_map(|(name, _)| name));
    block
}

fn superblock(nodes: &[Node], id: &str, blocks: u64) -> io::Result<Vec<u8>> {
    let mut block = Vec::with_capacity(128);
    block.extend(MAGIC.to_le_bytes());
    // No checksum of its own, no optional features.
    block.extend([0; 8]);
    block.extend([BLOCK_BITS, 0]);
    block.extend(u16::try_from(nodes[0].number).map_err(too_large)?.to_le_bytes());
    block.extend((nodes.len() as u64).to_le_bytes());
    // When it was made: the same for the same content.
    block.extend([0; 12]);
    block.extend(fitting(blocks)?.to_le_bytes());
    // Inodes are counted from the beginning of the file; attributes are not shared.
    block.extend([0; 8]);
    let mut uuid: Vec<u8> = id.bytes().take(16).collect();
    uuid.resize(16, 0);
    block.extend(uuid);
    block.resize(128, 0);
    Ok(block)
}

/// The attributes that are kept, as they follow an inode.
fn attributes(path: &Path) -> io::Result<Vec<u8>> {
    let mut names = Vec::with_capacity(LONGEST);
    match llistxattr(path, spare_capacity(&mut names)) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        listed => listed?,
    };
    let names = names.split_inclusive(|byte| *byte == 0);
    let mut names: Vec<&CStr> = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()).collect();
    names.sort_unstable();
    let mut encoded = Vec::new();
    for name in names {
        let text = name.to_bytes();
        let Some((_, prefix, number)) = KEPT.iter().find(|(kept, ..)| text.starts_with(kept)) else {
            continue;
        };
        if OF_ONE_FILE_SYSTEM.contains(&text) {
            continue;
        }
        let mut value = Vec::with_capacity(LONGEST);
        lgetxattr(path, name, spare_capacity(&mut value))?;
        let rest = &text[prefix.len()..];
        encoded.extend([u8::try_from(rest.len()).map_err(too_large)?, *number]);
        encoded.extend(u16::try_from(value.len()).map_err(too_large)?.to_le_bytes());
        encoded.extend(rest);
        encoded.extend(value);
        encoded.resize(encoded.len().next_multiple_of(4), 0);
    }
    if encoded.is_empty() {
        return Ok(encoded);
    }
    // A head that says that none are shared with other files.
    Ok([vec![0; 12], encoded].concat())
}

/// As the kernel writes a device's number into an inode.
fn device(number: u64) -> u32 {
    let (major, minor) = (major(number), minor(number));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn pad(out: &mut impl Write, written: u64, unit: u64) -> io::Result<()> {
    let missing = written.next_multiple_of(unit) - written;
    out.write_all(&vec![0; usize::try_from(missing).expect("less than a block")])
}

fn fitting(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(too_large)
}

fn too_large(_: std::num::TryFromIntError) -> io::Error {
    io::ErrorKind::FileTooLarge.into()
}
