//! Pinning the Debian packages.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use flotilla_bundle::hash;
use flotilla_bundle::lock::DebPin;
use sha2::{Digest, Sha256};
use toml_edit::{Array, InlineTable, Value};

use super::LockFile;
use crate::program;

/// Asks apt for the packages, as for a machine that has none yet, and pins what it would install.
///
/// Apt works on a state of its own in a temporary folder: neither the host's packages nor its lists change.
pub(super) fn lock(file: &mut LockFile) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    for folder in ["lists/partial", "archives/partial", "log"] {
        fs::create_dir_all(scratch.path().join(folder))?;
    }
    fs::write(scratch.path().join("status"), "")?;

    apt_get(scratch.path(), &["update"])?;
    let packages = file.read()?.userland.packages;
    let mut install = vec!["install", "--download-only", "--yes", "--no-install-recommends"];
    install.extend(packages.iter().map(String::as_str));
    apt_get(scratch.path(), &install)?;

    let mut pins = Vec::new();
    for entry in fs::read_dir(scratch.path().join("archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            pins.push(pin(&path)?);
        }
    }
    pins.sort_by(|a, b| a.name.cmp(&b.name));
    println!("userland: {} packages", pins.len());
    file.set(&["userland"], "pin", render(&pins))
}

fn apt_get(scratch: &Path, arguments: &[&str]) -> Result<()> {
    let below = |name: &str| scratch.join(name).display().to_string();
    let options = [
        format!("Dir::State::status={}", below("status")),
        format!("Dir::State::Lists={}", below("lists")),
        format!("Dir::State::extended_states={}", below("extended_states")),
        format!("Dir::Cache::archives={}", below("archives")),
        "Dir::Cache::pkgcache=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
        format!("Dir::Log={}", below("log")),
        "Debug::NoLocking=1".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let mut argv = vec!["apt-get", "--quiet"];
    argv.extend(options.iter().flat_map(|option| ["--option", option]));
    argv.extend(arguments);
    program::run(&argv, scratch, &[])?;
    Ok(())
}

fn pin(deb: &Path) -> Result<DebPin> {
    let path = deb.to_str().context("apt made a file name that is no UTF-8")?;
    let folder = deb.parent().context("a package is in a folder")?;
    let show = ["dpkg-deb", "--show", "--showformat=${Package} ${Version}", path];
    let shown = program::run(&show, folder, &[])?;
    let (name, version) = shown.split_once(' ').with_context(|| format!("{path} has no version"))?;
    let sha256 = hash::hex(&Sha256::digest(fs::read(deb)?));
    Ok(DebPin { name: name.to_owned(), version: version.to_owned(), sha256 })
}

/// One package a line, so that a refresh reads well in a review.
fn render(pins: &[DebPin]) -> Array {
    let mut array = Array::new();
    for pin in pins {
        let mut table = InlineTable::new();
        table.insert("name", pin.name.as_str().into());
        table.insert("version", pin.version.as_str().into());
        table.insert("sha256", pin.sha256.as_str().into());
        let mut line = Value::from(table);
        line.decor_mut().set_prefix("\n  ");
        array.push_formatted(line);
    }
    array.set_trailing("\n");
    array.set_trailing_comma(true);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_has_its_line() {
        let pin = |name: &str| DebPin { name: name.into(), version: "1:2-3".into(), sha256: "ab".into() };
        assert_eq!(
            Value::from(render(&[pin("bash"), pin("less")])).to_string(),
            "[
  { name = \"bash\", version = \"1:2-3\", sha256 = \"ab\" },
  { name = \"less\", version = \"1:2-3\", sha256 = \"ab\" },
]"
        );
    }
}
