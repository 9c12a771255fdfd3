//! Kubernetes built from a checkout of the user's own (`--kubernetes-source`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flotilla_core::event::Step;
use flotilla_linux::host::Command;

use super::BuildSource;
use super::go::{self, Stamp};
use crate::error::{BundleError, Result};
use crate::lock::GoComponent;
use crate::source::{Component, Provenance, Workplace};

/// A directory with Kubernetes in it, and what it calls itself.
#[derive(Debug, Clone)]
pub struct Checkout {
    pub(crate) path: PathBuf,
    /// As upstream's own build would say: `v1.37.1-5+0123456789abcd`.
    pub(crate) version: String,
    commit: String,
    /// Files differ from the commit, or are not in it.
    modified: bool,
    date: String,
}

impl Checkout {
    /// Asks git about the checkout. `version` overrides the name it has by its tags.
    pub(crate) fn inspect(path: &Path, version: Option<&str>) -> Result<Self> {
        let refused = |reason: String| BundleError::Checkout { path: path.to_owned(), reason };
        let path = path.canonicalize().map_err(|error| refused(error.to_string()))?;
        for needed in ["go.mod", "cmd/kubeadm", "staging/src/k8s.io/component-base"] {
            if !path.join(needed).exists() {
                return Err(refused(format!("{needed} is missing")));
            }
        }
        let git = |args: &[&str]| -> Result<String> {
            // The user named the directory, so it may belong to somebody else than root. Looking must not write to it.
            let trusted = format!("safe.directory={}", path.display());
            let command = Command::new("git")
                .args(["--no-optional-locks", "-c", &trusted, "-c", "core.fsmonitor=false"])
                .arg("-C")
                .arg(&path)
                .args(args);
            let output = command
                .run()
                .map_err(|error| refused(format!("git cannot describe its version: {error}")))?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let modified = !git(&["status", "--porcelain"])?.is_empty();
        let version = if let Some(version) = version {
            version.to_owned()
        } else {
            let described = semantic(&git(&["describe", "--tags", "--match=v*", "--abbrev=14"])?);
            // As upstream's own build marks it.
            if modified { format!("{described}-dirty") } else { described }
        };
        let commit = git(&["rev-parse", "HEAD"])?;
        let date = git(&["show", "--no-patch", "--format=%cd", "--date=format:%Y-%m-%dT%H:%M:%SZ", "HEAD"])?;
        Ok(Self { path, version, commit, modified, date })
    }

    /// What the programs say of themselves: the lock file's stamps are those of a release.
    fn stamps(&self, of_release: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let state = if self.modified { "dirty" } else { "clean" };
        let stamp = |(name, value): (&String, &String)| {
            let value = match name.rsplit('.').next() {
                Some("gitCommit") => self.commit.as_str(),
                Some("gitTreeState") => state,
                _ => value,
            };
            (name.clone(), value.to_owned())
        };
        of_release.iter().map(stamp).collect()
    }
}

impl BuildSource {
    pub(super) fn build_checkout(
        &self,
        component: &Component,
        how: &GoComponent,
        checkout: &Checkout,
        at: &Workplace<'_>,
        step: &Step<'_>,
    ) -> Result<Provenance> {
        // Its go.work joins the staging directories and its vendor directory is the pin: leave both in force.
        let go = || self.go(&checkout.path, at).env_remove("GOWORK").env("CGO_ENABLED", "0");
        let stamp = Stamp { version: &component.version, date: &checkout.date };
        let how = GoComponent { stamp: checkout.stamps(&how.stamp), ..how.clone() };
        go::compile(&go, &how, &stamp, at.files, step)?;
        Ok(Provenance::Checkout {
            path: checkout.path.display().to_string(),
            commit: checkout.commit.clone(),
            modified: checkout.modified,
        })
    }
}

/// Git's `v1.37.1-5-g0123456789abcd` as a semantic version, the way upstream writes it.
fn semantic(described: &str) -> String {
    let mut parts = described.rsplitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(commit), Some(count), Some(tag)) if commit.starts_with('g') && count.parse::<u32>().is_ok() => {
            // A pre-release takes the count as one more part of itself.
            let join = if tag.contains('-') { '.' } else { '-' };
            format!("{tag}{join}{count}+{}", &commit[1..])
        }
        _ => described.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flotilla_core::Cancel;

    use super::*;
    use crate::fixture::{self, Events};
    use crate::source::Kind;

    fn how() -> GoComponent {
        let stamps = [("main.version", "{version}"), ("main.gitTreeState", "clean")];
        GoComponent {
            module: "k8s.io/kubernetes".into(),
            programs: vec!["k8s.io/kubernetes/cmd/kubeadm".into()],
            rename: BTreeMap::new(),
            tags: Vec::new(),
            cgo: false,
            stamp: stamps.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            seconds: 1,
            versions: BTreeMap::new(),
        }
    }

    /// Builds a checkout. Gives where it is from, and what the program says of itself.
    fn build(directory: &Path, checkout: &Checkout) -> (Provenance, String) {
        let kind = Kind::Checkout { how: how(), checkout: checkout.clone() };
        let component = Component { name: "kubernetes".into(), version: checkout.version.clone(), kind };
        let (files, scratch) = (directory.join("files"), directory.join("scratch"));
        for directory in [&files, &scratch] {
            fs::create_dir_all(directory).unwrap();
        }
        let at = Workplace { files: &files, scratch: &scratch };
        let events = Events::default();
        let step = Step::start(&events, "kubernetes", "", None);
        let source = BuildSource::new(directory.join("cache"), Cancel::new());
        let from = source.build_checkout(&component, &how(), checkout, &at, &step).unwrap();
        let said = Command::new(files.join("kubeadm")).run().unwrap().stderr;
        (from, String::from_utf8_lossy(&said).trim().to_owned())
    }

    #[test]
    fn a_checkout_is_built_under_the_name_that_its_tags_give_it() {
        let directory = fixture::directory();
        let checkout_directory = directory.path().join("kubernetes");
        fixture::commit_checkout(&checkout_directory, "v1.36.3");
        let checkout = Checkout::inspect(&checkout_directory, None).unwrap();
        assert!(checkout.version.starts_with("v1.36.3-1+"), "{}", checkout.version);
        assert_eq!(Checkout::inspect(&checkout_directory, Some("v1.36.9")).unwrap().version, "v1.36.9");
        let (from, said) = build(directory.path(), &checkout);
        let Provenance::Checkout { commit, modified, .. } = from else { panic!("{from:?}") };
        assert_eq!((commit, modified), (checkout.commit, false));
        assert_eq!(said, format!("{} clean", checkout.version));
    }

    #[test]
    fn a_modified_checkout_is_recorded_as_modified_and_stays_as_it_is() {
        let directory = fixture::directory();
        let checkout_directory = directory.path().join("kubernetes");
        fixture::commit_checkout(&checkout_directory, "v1.36.3");
        let clean = Checkout::inspect(&checkout_directory, None).unwrap();
        fs::write(checkout_directory.join("cmd/kubeadm/mine.go"), "package main\n").unwrap();
        let index = fs::read(checkout_directory.join(".git/index")).unwrap();
        let checkout = Checkout::inspect(&checkout_directory, None).unwrap();
        assert_eq!(checkout.version, format!("{}-dirty", clean.version));
        let (from, said) = build(directory.path(), &checkout);
        assert!(matches!(from, Provenance::Checkout { modified: true, .. }), "{from:?}");
        assert_eq!(said, format!("{} dirty", checkout.version));
        // A name that was given stays, and what it was made from is recorded anyway.
        let named = Checkout::inspect(&checkout_directory, Some("v1.36.9")).unwrap();
        assert_eq!((named.version.as_str(), named.modified), ("v1.36.9", true));
        assert_eq!(fs::read(checkout_directory.join(".git/index")).unwrap(), index);
    }

    #[test]
    fn a_description_becomes_a_semantic_version() {
        assert_eq!(semantic("v1.37.1"), "v1.37.1");
        assert_eq!(semantic("v1.37.1-5-g0123456789abcd"), "v1.37.1-5+0123456789abcd");
        assert_eq!(semantic("v1.38.0-alpha.1-12-gfeedfacecafe00"), "v1.38.0-alpha.1.12+feedfacecafe00");
    }

    #[test]
    fn a_directory_without_kubernetes_is_refused() {
        let dir = fixture::directory();
        let error = Checkout::inspect(dir.path(), None).unwrap_err();
        assert!(error.to_string().ends_with("is not a Kubernetes checkout: go.mod is missing"), "{error}");
    }
}
