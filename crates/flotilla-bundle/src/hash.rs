//! SHA-256, as this crate writes it.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// The digest of these bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Hashes what is read through it, and knows how much that was and whether it went wrong.
#[derive(Debug)]
pub(crate) struct Hashed<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
    failed: Option<String>,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0, failed: None }
    }

    /// What reading failed with: whoever copies gets one error for both ends.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// The number of bytes read and their hash.
    pub(crate) fn finish(self) -> (u64, String) {
        (self.bytes, hex(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.failed = Some(error.to_string());
            }
        })?;
        self.hash.update(&buffer[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
}
