//! The kernel's list of mounts, `mountinfo` (proc(5)). It is bytes: a mount point need not be text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What a line of the list says.
#[derive(Debug)]
pub(crate) struct Mount {
    /// The mount point.
    pub(crate) at: PathBuf,
    pub(crate) kind: String,
    /// The file system's own.
    pub(crate) options: String,
}

/// The mounts of a whole list; lines that cannot be understood are left out.
pub(crate) fn mounts(list: &[u8]) -> impl Iterator<Item = Mount> {
    list.split(|byte| *byte == b'\n').filter_map(parse_line)
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    // The number of fields before the lone dash varies.
    let mut fields = line.split(|byte| *byte == b' ');
    let mount_point = fields.nth(4)?;
    let mut after = fields.skip_while(|field| *field != b"-").skip(1);
    let mut text = || Some(String::from_utf8_lossy(after.next()?).into_owned());
    let (kind, _source, options) = (text()?, text()?, text()?);
    Some(Mount { at: unescaped(mount_point), kind, options })
}

/// Undoes the escaping of space, tab, line end and backslash as `\040` and so on.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let code = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let code = code.and_then(|digits| str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => bytes.push(byte),
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn escaped_mount_points_are_read() {
        assert_eq!(unescaped(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescaped(br"/end\04"), Path::new(r"/end\04"));
    }
}
