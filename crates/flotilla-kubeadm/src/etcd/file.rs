//! What the file of a snapshot proves by itself, on the host, before anything is stopped: that it is a whole snapshot, and
//! whose it is.
//!
//! A snapshot is etcd's database (bbolt) with a SHA-256 checksum after it. bbolt keeps every value in one piece, so an
//! object of the API can be found by its key without a server: the objects that publish the cluster's authority are
//! read from the file as they are.

use std::io::{self, Read, Seek, SeekFrom};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flotilla_core::{BootstrapError, Content, Machine, SnapshotError, SnapshotFile, SnapshotOrigin};
use memchr::memmem;
use sha2::{Digest, Sha256};

use crate::disk;

const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";

/// bbolt's mark and version, at this place of its first two pages.
const MARK: [u8; 8] = [0xed, 0xda, 0x0c, 0xed, 2, 0, 0, 0];
const MARK_AT: usize = 16;
const PAGE: usize = 4096;
/// A database is made of sectors of this size. etcd tells by the rest whether a checksum follows.
const SECTOR: u64 = 512;
const CHECKSUM: u64 = 32;

const CHUNK: usize = 4 << 20;
/// No object that is looked for is longer.
const REACH: usize = 256 << 10;

/// Where clusters publish their authority, the better proof first: the controller manager corrects this one all the time.
const ROOT_CA: &[u8] = b"/registry/configmaps/kube-system/kube-root-ca.crt";
/// kubeadm's, which is there some seconds earlier.
const CLUSTER_INFO: &[u8] = b"/registry/configmaps/kube-public/cluster-info";

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";
const ENCODED: &[u8] = b"certificate-authority-data: ";

/// Reads the file once, from its beginning to its end.
pub(super) fn check(mut content: Box<dyn Content>) -> Result<SnapshotFile, SnapshotError> {
    let size = content.seek(SeekFrom::End(0))?;
    if !is_database(content.as_mut())? {
        return Err(SnapshotError::NotSnapshot);
    }
    let has_checksum = size % SECTOR == CHECKSUM;
    if !has_checksum && size % SECTOR != 0 {
        return Err(SnapshotError::Damaged);
    }
    let mut scan = Scan::default();
    content.rewind()?;
    let mut data = content.by_ref().take(if has_checksum { size - CHECKSUM } else { size });
    while scan.read_on(&mut data)? {}
    if has_checksum {
        let mut checksum = [0; 32];
        content.read_exact(&mut checksum).map_err(|_| SnapshotError::Damaged)?;
        if scan.checksum.finalize()[..] != checksum {
            return Err(SnapshotError::Damaged);
        }
    }
    let authorities = scan.root_ca.or(scan.cluster_info).map(|(_, found)| found).unwrap_or_default();
    Ok(SnapshotFile { content, has_checksum, authorities })
}

/// Whether a snapshot is of the cluster with this authority, a certificate in PEM.
pub(super) fn origin(snapshot: &SnapshotFile, authority: &[u8]) -> SnapshotOrigin {
    let own = certificates(authority);
    match &snapshot.authorities[..] {
        [] => SnapshotOrigin::Unknown,
        found if found.iter().any(|found| own.contains(found)) => SnapshotOrigin::ThisCluster,
        _ => SnapshotOrigin::AnotherCluster,
    }
}

/// The authority of the cluster that a control plane is of, on or off, in PEM; none if it has none.
pub(super) async fn authority(machine: &dyn Machine) -> Result<Option<Vec<u8>>, BootstrapError> {
    disk::read(machine, AUTHORITY).await
}

fn is_database(content: &mut dyn Content) -> io::Result<bool> {
    let mut pages = Vec::new();
    content.rewind()?;
    content.take(2 * PAGE as u64).read_to_end(&mut pages)?;
    let has_mark = |page: &[u8]| page.get(MARK_AT..MARK_AT + MARK.len()) == Some(&MARK);
    Ok(pages.chunks(PAGE).any(has_mark))
}

/// One reading of the file.
#[derive(Default)]
struct Scan {
    checksum: Sha256,
    /// What was read last, as far as an object may begin in it.
    window: Vec<u8>,
    /// The newest revision of each object, with the certificates in it.
    root_ca: Option<(u64, Vec<Vec<u8>>)>,
    cluster_info: Option<(u64, Vec<Vec<u8>>)>,
}

impl Scan {
    /// Reads the next part, if there is one.
    fn read_on(&mut self, data: &mut impl Read) -> io::Result<bool> {
        let kept = self.window.len();
        let read = data.by_ref().take(CHUNK as u64).read_to_end(&mut self.window)?;
        self.checksum.update(&self.window[kept..]);
        // An object that begins behind this may go on in the next part.
        let end = if read == 0 { self.window.len() } else { self.window.len().saturating_sub(REACH) };
        newest(&self.window, end, ROOT_CA, certificates, &mut self.root_ca);
        newest(&self.window, end, CLUSTER_INFO, encoded_certificates, &mut self.cluster_info);
        self.window.drain(..end);
        Ok(read > 0)
    }
}

/// Looks for revisions of an object that begin before `end`.
fn newest(
    window: &[u8],
    end: usize,
    key: &[u8],
    certificates: impl Fn(&[u8]) -> Vec<Vec<u8>>,
    best: &mut Option<(u64, Vec<Vec<u8>>)>,
) {
    let places = memmem::find_iter(&window[..window.len().min(end + key.len() - 1)], key);
    for (revision, value) in places.filter_map(|at| parse(&window[at + key.len()..])) {
        let found = certificates(value);
        if !found.is_empty() && best.as_ref().is_none_or(|(newest, _)| revision > *newest) {
            *best = Some((revision, found));
        }
    }
}

/// The modification's revision and the value of etcd's `KeyValue` message, from the end of its key on.
fn parse(mut rest: &[u8]) -> Option<(u64, &[u8])> {
    let mut revision = None;
    loop {
        let (tag, after) = rest.split_first()?;
        rest = after;
        let number = varint(&mut rest)?;
        match tag {
            // The revision of its creation, how often it was written since.
            0x10 | 0x20 => {}
            0x18 => revision = Some(number),
            0x2a => return Some((revision?, rest.get(..usize::try_from(number).ok()?)?)),
            _ => return None,
        }
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The certificates in a text, in PEM.
fn certificates(text: &[u8]) -> Vec<Vec<u8>> {
    let certificate = |at| Some(text[at..][..memmem::find(&text[at..], END)? + END.len()].to_vec());
    memmem::find_iter(text, BEGIN).filter_map(certificate).collect()
}

/// Those of a kubeconfig.
fn encoded_certificates(text: &[u8]) -> Vec<Vec<u8>> {
    let Some(at) = memmem::find(text, ENCODED) else { return Vec::new() };
    let line = text[at + ENCODED.len()..].split(u8::is_ascii_whitespace).next().unwrap_or_default();
    BASE64.decode(line).map(|decoded| certificates(&decoded)).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests;
