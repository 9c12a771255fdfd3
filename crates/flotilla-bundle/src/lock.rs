//! The lock file: every component of a bundle, its version and its checksum.
//!
//! It is compiled in (`recipe.rs`), so a binary always builds the bundles it was tested with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::platform::Platform;
use crate::source::Component;

/// `bundle/lock.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lock {
    /// The Kubernetes version taken when none is asked for.
    pub default: String,
    /// Versions that every release shares, by component name.
    pub tools: BTreeMap<String, String>,
    /// Kubernetes versions that can be built, each with the versions that go with it.
    pub release: BTreeMap<String, Release>,
    pub go: BTreeMap<String, GoComponent>,
    pub pause: Pause,
    pub userland: Userland,
}

/// What one Kubernetes version wants beside it (kubeadm decides).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub etcd: String,
    pub coredns: String,
    pub pause: String,
}

/// How the programs of one Go component are built.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GoComponent {
    /// The module whose version is the component's.
    pub module: String,
    /// Import paths of the programs.
    pub programs: Vec<String>,
    /// Program names that differ from the last part of their import path.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Links C code: needs gcc and libseccomp.
    #[serde(default)]
    pub cgo: bool,
    /// Values set at link time; `{version}`, `{major}`, `{minor}` and `{date}` are filled in.
    #[serde(default)]
    pub stamp: BTreeMap<String, String>,
    /// How long a cold build took on two cores. Not written: it says nothing about what is built.
    #[serde(skip_serializing)]
    pub seconds: u64,
    #[serde(default, skip_serializing)]
    pub versions: BTreeMap<String, GoPin>,
}

/// One pinned version of a Go component.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GoPin {
    /// Go's checksum of the module (`h1:…`), as in go.sum.
    pub sum: String,
    /// SHA-256 of the files in `bundle/go/NAME/` that build it.
    pub recipe: String,
    /// When upstream tagged it.
    pub date: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// SHA-256 of the files in `bundle/pause/`.
    pub recipe: String,
    pub seconds: u64,
}

/// What is taken out of Debian packages.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Userland {
    pub packages: Vec<String>,
    pub programs: Vec<String>,
    pub data: Vec<String>,
    pub terminals: Vec<String>,
    #[serde(skip_serializing)]
    pub seconds: u64,
    /// The packages of each platform that was locked.
    #[serde(default)]
    pub pins: Vec<DebPins>,
}

/// The packages of one platform: the same name and version is another file elsewhere.
#[derive(Debug, Clone, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DebPins {
    /// `ID` of os-release, such as `debian`.
    pub vendor: String,
    /// `VERSION_CODENAME` of os-release, such as `bookworm`.
    pub release: String,
    /// As Debian calls it, such as `amd64`.
    pub architecture: String,
    pub packages: Vec<DebPin>,
}

impl DebPins {
    pub fn platform(&self) -> Platform {
        let Self { vendor, release, architecture, packages: _ } = self.clone();
        Platform { vendor, release, architecture }
    }
}

impl Userland {
    /// The pins that apply on a platform; none if it is not in the lock file.
    pub fn pins_for(&self, platform: &Platform) -> Option<&[DebPin]> {
        let set = self.pins.iter().find(|set| set.platform() == *platform)?;
        Some(&set.packages)
    }
}

#[derive(Debug, Clone, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DebPin {
    pub name: String,
    pub version: String,
    pub sha256: String,
}

/// A lock file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot read the lock file")]
    Syntax(#[source] Box<toml::de::Error>),
    #[error("the lock file lists {what} but has no pin for it")]
    Unpinned { what: String },
    #[error("Kubernetes {version} is not available: choose {}", alternatives(.known))]
    UnknownVersion { version: String, known: Vec<String> },
}

/// `a, b or c`.
fn alternatives(known: &[String]) -> String {
    match known {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => known.join(", "),
    }
}

impl Lock {
    /// Parses the lock and checks that everything it refers to is pinned.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let lock: Self = toml::from_str(text).map_err(|error| LockError::Syntax(Box::new(error)))?;
        lock.release(&lock.default)?;
        for (version, release) in &lock.release {
            lock.pin("kubernetes", version)?;
            lock.pin("etcd", &release.etcd)?;
            lock.pin("coredns", &release.coredns)?;
        }
        for (name, version) in &lock.tools {
            lock.pin(name, version)?;
        }
        Ok(lock)
    }

    pub fn release(&self, version: &str) -> Result<&Release, LockError> {
        self.release.get(version).ok_or_else(|| self.unknown(version))
    }

    fn unknown(&self, version: &str) -> LockError {
        let known = self.release.keys().rev().cloned().collect::<Vec<_>>();
        LockError::UnknownVersion { version: version.to_owned(), known }
    }

    /// The pinned release of the same minor version as `version`, which itself need not be pinned.
    pub fn release_like(&self, version: &str) -> Result<&str, LockError> {
        let minor = |version: &str| version.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
        let alike = self.release.keys().find(|known| minor(known) == minor(version));
        alike.map(String::as_str).ok_or_else(|| self.unknown(version))
    }

    /// The components of every release.
    pub(crate) fn releases(&self) -> Result<Vec<Component>> {
        let of_releases = self.release.keys().map(|version| Component::of_release(self, version));
        Ok(of_releases.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// How a Go component is built, and the pin of that version of it.
    pub fn pin(&self, name: &str, version: &str) -> Result<(&GoComponent, &GoPin), LockError> {
        self.go
            .get(name)
            .and_then(|component| Some((component, component.versions.get(version)?)))
            .ok_or_else(|| LockError::Unpinned { what: format!("{name} {version}") })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::recipe;
    use crate::source::Kind;

    fn compiled_in() -> Lock {
        Lock::parse(&recipe::lock_text()).unwrap()
    }

    /// Parses the compiled-in lock after a change.
    fn parse_changed(change: impl FnOnce(&mut toml::Table)) -> Result<Lock, LockError> {
        let mut table: toml::Table = recipe::lock_text().parse().unwrap();
        change(&mut table);
        Lock::parse(&toml::to_string(&table).unwrap())
    }

    fn is_sha256(text: &str) -> bool {
        text.len() == 64 && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    }

    #[test]
    fn the_compiled_in_lock_is_good() {
        let lock = compiled_in();
        assert!(lock.release.contains_key(&lock.default));
        parse_changed(|_| ()).unwrap();
    }

    #[test]
    fn an_unknown_field_is_refused_wherever_it_is() {
        let lock = compiled_in();
        let etcd = &lock.release[&lock.default].etcd;
        let places: [&[&str]; 6] = [
            &[],
            &["release", &lock.default],
            &["go", "etcd"],
            &["go", "etcd", "versions", etcd],
            &["pause"],
            &["userland"],
        ];
        for place in places {
            let add = |lock: &mut toml::Table| {
                let table = place.iter().fold(lock, |table, name| table[*name].as_table_mut().unwrap());
                table.insert("surprise".into(), 1.into());
            };
            let error = parse_changed(add).unwrap_err();
            let LockError::Syntax(source) = error else { panic!("{error}") };
            assert!(source.to_string().contains("surprise"), "{source}");
        }
    }

    #[test]
    fn text_that_is_no_lock_is_refused() {
        for text in ["", "default = ", "default = 1"] {
            assert!(matches!(Lock::parse(text), Err(LockError::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn everything_that_is_named_must_be_pinned() {
        let lock = compiled_in();
        let release = &lock.release[&lock.default];
        let named = [
            ("kubernetes", &lock.default),
            ("etcd", &release.etcd),
            ("coredns", &release.coredns),
            ("runc", &lock.tools["runc"]),
        ];
        for (component, version) in named {
            let unpin = |lock: &mut toml::Table| {
                let versions = lock["go"][component]["versions"].as_table_mut().unwrap();
                versions.remove(version).expect("the lock file has this version");
            };
            let error = parse_changed(unpin).unwrap_err();
            let expected = format!("the lock file lists {component} {version} but has no pin for it");
            assert_eq!(error.to_string(), expected);
        }
        let error =
            parse_changed(|lock| drop(lock["go"].as_table_mut().unwrap().remove("crictl"))).unwrap_err();
        assert!(matches!(error, LockError::Unpinned { .. }), "{error}");
    }

    #[test]
    fn the_default_must_be_a_release() {
        let error = parse_changed(|lock| drop(lock.insert("default".into(), "v9.9.9".into()))).unwrap_err();
        let LockError::UnknownVersion { version, known } = &error else { panic!("{error}") };
        assert_eq!(version, "v9.9.9");
        assert_eq!(*known, compiled_in().release.keys().rev().cloned().collect::<Vec<_>>());
        let error = LockError::UnknownVersion {
            version: "v1.2.3".into(),
            known: ["v1.37.1", "v1.36.4", "v1.35.8"].map(String::from).to_vec(),
        };
        let text = "Kubernetes v1.2.3 is not available: choose v1.37.1, v1.36.4 or v1.35.8";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_version_stands_for_the_release_of_its_minor() {
        let lock = compiled_in();
        for release in lock.release.keys() {
            let (minor, _) = release.rsplit_once('.').unwrap();
            assert_eq!(lock.release_like(&format!("{minor}.99-5+0123456789abcd")).unwrap(), release);
            let shorter = &minor[..minor.len() - 1]; // v1.3 is not v1.37
            let error = lock.release_like(&format!("{shorter}.1")).unwrap_err();
            assert!(matches!(error, LockError::UnknownVersion { .. }), "{error}");
        }
    }

    #[test]
    fn every_release_has_all_components_userland_first() {
        let lock = compiled_in();
        for version in lock.release.keys() {
            let components = Component::of_release(&lock, version).unwrap();
            assert_eq!(components[0].name, "userland", "runc links a library of it");
            let names: BTreeSet<&str> = components.iter().map(|component| component.name.as_str()).collect();
            let wanted = [
                "userland",
                "pause",
                "kubernetes",
                "etcd",
                "coredns",
                "containerd",
                "runc",
                "cni-plugins",
                "crictl",
            ];
            assert_eq!(names, BTreeSet::from(wanted), "{version}");
            assert_eq!(components.len(), names.len(), "{version}");
            let kubernetes = components.iter().find(|component| component.name == "kubernetes").unwrap();
            assert_eq!(kubernetes.version, *version);
            assert!(components.iter().all(|component| component.expected().as_secs() > 0), "{version}");
        }
    }

    #[test]
    fn every_recipe_is_the_compiled_in_one() {
        let lock = compiled_in();
        assert_eq!(lock.pause.recipe, recipe::digest(&recipe::pause()));
        for (name, component) in &lock.go {
            for (version, pin) in &component.versions {
                let files = recipe::go_module(name, version);
                assert!(files.iter().any(|file| file.name == "go.mod"), "{name} {version}");
                assert_eq!(pin.recipe, recipe::digest(&files), "{name} {version}");
                assert!(pin.sum.starts_with("h1:"), "{name} {version}");
                pin.date.parse::<jiff::Timestamp>().unwrap();
            }
        }
    }

    #[test]
    fn every_pin_is_used_by_a_release() {
        let lock = compiled_in();
        let mut used = BTreeSet::new();
        for version in lock.release.keys() {
            let components = Component::of_release(&lock, version).unwrap();
            let go = components.into_iter().filter(|component| matches!(component.kind, Kind::Go { .. }));
            used.extend(go.map(|component| (component.name, component.version)));
        }
        let pinned: BTreeSet<_> = lock
            .go
            .iter()
            .flat_map(|(name, component)| {
                component.versions.keys().map(|version| (name.clone(), version.clone()))
            })
            .collect();
        assert_eq!(pinned, used);
    }

    #[test]
    fn debian_pins_are_checksums_and_each_package_has_one() {
        let userland = compiled_in().userland;
        assert!(!userland.pins.is_empty());
        for set in &userland.pins {
            let names: BTreeSet<&str> = set.packages.iter().map(|pin| pin.name.as_str()).collect();
            assert_eq!(names.len(), set.packages.len(), "a package is pinned twice");
            for package in &userland.packages {
                assert!(names.contains(package.as_str()), "{package} is not pinned");
            }
            for pin in &set.packages {
                assert!(is_sha256(&pin.sha256) && !pin.version.is_empty(), "{pin:?}");
            }
        }
    }

    #[test]
    fn pins_apply_on_their_own_platform_only() {
        let userland = compiled_in().userland;
        let locked = userland.pins[0].platform();
        assert_eq!(userland.pins_for(&locked), Some(userland.pins[0].packages.as_slice()));
        let elsewhere = [
            Platform { vendor: "ubuntu".into(), ..locked.clone() },
            Platform { release: "noble".into(), ..locked.clone() },
            Platform { architecture: "riscv64".into(), ..locked },
        ];
        for platform in elsewhere {
            assert_eq!(userland.pins_for(&platform), None, "{platform}");
        }
    }
}
