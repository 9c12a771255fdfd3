//! Pinning the Debian packages.

use std::sync::Mutex;

use anyhow::{Context, Result};
use flotilla_bundle::build::Clients;
use flotilla_bundle::build::apt::Apt;
use flotilla_bundle::lock::DebPin;
use flotilla_bundle::platform::Platform;
use flotilla_core::Event;
use flotilla_core::event::Step;
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, Value};

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
    let platform = Platform::of_host();
    println!("userland: {} packages of {platform}", pins.len());
    let sets = file.table(&["userland"])?.entry("pins").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let sets =
        sets.as_array_of_tables_mut().context("userland.pins in the lock file is no list of tables")?;
    put(sets, &platform, &pins);
    Ok(())
}

/// Replaces the pins of a platform, or adds them behind the others.
fn put(sets: &mut ArrayOfTables, platform: &Platform, pins: &[DebPin]) {
    let fields = [
        ("vendor", &platform.vendor),
        ("release", &platform.release),
        ("architecture", &platform.architecture),
    ];
    let is_it = |set: &Table| {
        fields.iter().all(|(key, value)| set.get(key).and_then(Item::as_str) == Some(value.as_str()))
    };
    if !sets.iter().any(is_it) {
        let mut set = Table::new();
        for (key, value) in fields {
            set.insert(key, toml_edit::value(value));
        }
        sets.push(set);
    }
    let set = sets.iter_mut().find(|set| is_it(set)).expect("it was added");
    set.insert("packages", Item::Value(Value::Array(render(pins))));
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

    fn pin(name: &str) -> DebPin {
        DebPin { name: name.into(), version: "1:2-3".into(), sha256: "ab".into() }
    }

    #[test]
    fn the_pins_of_one_platform_replace_those_of_the_same_and_no_other() {
        let text = "[[pins]]\nvendor = \"debian\"\nrelease = \"bookworm\"\narchitecture = \"amd64\"\npackages = []\n";
        let mut document: toml_edit::DocumentMut = text.parse().unwrap();
        let platform = |architecture: &str| Platform {
            vendor: "debian".into(),
            release: "bookworm".into(),
            architecture: architecture.into(),
        };
        let sets = document["pins"].as_array_of_tables_mut().unwrap();
        put(sets, &platform("arm64"), &[pin("bash")]);
        put(sets, &platform("amd64"), &[pin("less")]);
        put(sets, &platform("arm64"), &[pin("curl")]);
        let names: Vec<_> = sets
            .iter()
            .map(|set| (set["architecture"].as_str().unwrap(), set["packages"][0]["name"].as_str().unwrap()))
            .collect();
        assert_eq!(names, [("amd64", "less"), ("arm64", "curl")]);
    }

    #[test]
    fn each_package_has_its_line() {
        assert_eq!(
            Value::from(render(&[pin("bash"), pin("less")])).to_string(),
            "[
  { name = \"bash\", version = \"1:2-3\", sha256 = \"ab\" },
  { name = \"less\", version = \"1:2-3\", sha256 = \"ab\" },
]"
        );
    }
}
