//! Pinning the Debian packages.

use std::sync::Mutex;

use anyhow::Result;
use flotilla_bundle::build::Clients;
use flotilla_bundle::build::apt::Apt;
use flotilla_bundle::lock::DebPin;
use flotilla_engine::Event;
use flotilla_engine::event::Step;
use toml_edit::{Array, InlineTable, Value};

use super::LockFile;

/// Asks apt for the packages, as for a machine that has none yet, and pins what it would install.
pub(super) fn lock(file: &mut LockFile) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let apt = Apt::new(scratch.path().join("apt"), Clients::default())?;
    let unseen = Mutex::new(Vec::<Event>::new());
    let debs = apt.download(&file.read()?.userland.packages, &[], &Step::start(&unseen, "apt", "", None))?;
    let mut pins: Vec<DebPin> = debs
        .into_iter()
        .map(|deb| DebPin { name: deb.name, version: deb.version, sha256: deb.sha256 })
        .collect();
    pins.sort_by(|a, b| a.name.cmp(&b.name));
    println!("userland: {} packages", pins.len());
    file.set(&["userland"], "pin", render(&pins))
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
