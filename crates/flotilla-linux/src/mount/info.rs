//! The kernel's list of mounts, `mountinfo` (proc(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Mount point, type and the file system's own options of a line.
pub(crate) fn parse_line(line: &str) -> Option<(PathBuf, &str, &str)> {
    // The number of fields before the lone dash varies.
    let (before, after) = line.split_once(" - ")?;
    let mount_point = before.split(' ').nth(4)?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    Some((unescaped(mount_point), kind, options))
}

/// Undoes the escaping of space, tab, line end and backslash as `\040` and so on.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
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
        assert_eq!(unescaped(r"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescaped(r"/end\04"), Path::new(r"/end\04"));
    }
}
