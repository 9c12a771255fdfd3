//! Settings of the running kernel, by their path below `/proc/sys`: `net/ipv4/ip_forward`.
//!
//! Those below `net` are of the network namespace of the calling thread. A setting that has the right value already
//! is not written, so that it need not be writable then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A setting could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    #[error("cannot read the kernel setting {path}")]
    Read { path: String, source: io::Error },
    #[error("the kernel setting {path} is {value:?}, not a number")]
    NotANumber { path: String, value: String, source: std::num::ParseIntError },
    #[error("cannot set the kernel setting {path} to {value}")]
    Write { path: String, value: String, source: io::Error },
}

/// The value of a setting, without the line end.
pub fn get(path: &str) -> Result<String, SysctlError> {
    let value = fs::read_to_string(file(path));
    let value = value.map_err(|source| SysctlError::Read { path: path.to_owned(), source })?;
    Ok(value.trim_end().to_owned())
}

/// Gives a setting a value. Returns the one it had, if that was another.
pub fn set(path: &str, value: &str) -> Result<Option<String>, SysctlError> {
    let old = get(path)?;
    if old == value {
        return Ok(None);
    }
    write(path, value)?;
    Ok(Some(old))
}

/// Gives a number a higher value, never a lower one. Returns the one it had, if that was too low.
pub fn raise(path: &str, at_least: u64) -> Result<Option<u64>, SysctlError> {
    let value = get(path)?;
    let old = value.parse::<u64>();
    let old = old.map_err(|source| SysctlError::NotANumber { path: path.to_owned(), value, source })?;
    if old >= at_least {
        return Ok(None);
    }
    write(path, &at_least.to_string())?;
    Ok(Some(old))
}

fn write(path: &str, value: &str) -> Result<(), SysctlError> {
    fs::write(file(path), value).map_err(|source| SysctlError::Write {
        path: path.to_owned(),
        value: value.to_owned(),
        source,
    })
}

fn file(path: &str) -> PathBuf {
    Path::new("/proc/sys").join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right_already_is_not_written() {
        // The kernel's version cannot be written at all.
        let release = get("kernel/osrelease").unwrap();
        assert!(!release.is_empty() && !release.ends_with('\n'));
        assert_eq!(set("kernel/osrelease", &release).unwrap(), None);
        assert_eq!(raise("kernel/ngroups_max", 1).unwrap(), None);
    }

    #[test]
    fn errors_name_the_setting() {
        let error = get("no/such/setting").unwrap_err();
        assert_eq!(error.to_string(), "cannot read the kernel setting no/such/setting");
        let error = raise("kernel/ostype", 1).unwrap_err();
        assert_eq!(error.to_string(), "the kernel setting kernel/ostype is \"Linux\", not a number");
        let error = set("kernel/ostype", "Other").unwrap_err();
        assert_eq!(error.to_string(), "cannot set the kernel setting kernel/ostype to Other");
    }
}
