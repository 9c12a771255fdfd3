//! Kubernetes built from a checkout of the person's own (`--kubernetes-source`).

use std::path::{Path, PathBuf};

use flotilla_engine::event::Step;
use flotilla_linux::host::Command;

use super::BuildSource;
use super::go::{self, Stamp};
use crate::error::{BundleError, Result};
use crate::lock::GoComponent;
use crate::source::{Component, Provenance, Workplace};

/// A folder with Kubernetes in it, and what it calls itself.
#[derive(Debug, Clone)]
pub struct Checkout {
    pub(crate) path: PathBuf,
    /// As upstream's own build would say: `v1.37.1-5+0123456789abcd`.
    pub(crate) version: String,
    commit: String,
    date: String,
}

impl Checkout {
    /// Asks git what is there. `version` overrides the name it has by its tags.
    pub(crate) fn inspect(path: &Path, version: Option<&str>) -> Result<Self> {
        let refused = |reason: String| BundleError::Checkout { path: path.to_owned(), reason };
        let path = path.canonicalize().map_err(|error| refused(error.to_string()))?;
        for needed in ["go.mod", "cmd/kubeadm", "staging/src/k8s.io/component-base"] {
            if !path.join(needed).exists() {
                return Err(refused(format!("it has no {needed}")));
            }
        }
        let git = |args: &[&str]| -> Result<String> {
            let command = Command::new("git").arg("-C").arg(&path).args(args);
            let output =
                command.run().map_err(|error| refused(format!("git cannot tell its version: {error}")))?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = match version {
            Some(version) => version.to_owned(),
            None => semantic(&git(&["describe", "--tags", "--match=v*", "--abbrev=14"])?),
        };
        let commit = git(&["rev-parse", "HEAD"])?;
        let date = git(&["show", "--no-patch", "--format=%cd", "--date=format:%Y-%m-%dT%H:%M:%SZ", "HEAD"])?;
        Ok(Self { path, version, commit, date })
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
        // Its go.work joins the staging folders and its vendor folder is the pin: leave both in force.
        let go = || self.go(&checkout.path, at).env_remove("GOWORK").env("CGO_ENABLED", "0");
        let stamp = Stamp { version: &component.version, date: &checkout.date };
        go::compile(&go, how, &stamp, at.files, step)?;
        Ok(Provenance::Checkout {
            path: checkout.path.display().to_string(),
            commit: checkout.commit.clone(),
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
    use std::collections::BTreeMap;
    use std::fs;

    use flotilla_linux::host::Cancel;

    use super::*;
    use crate::fixture::{self, Events};
    use crate::source::Kind;

    /// As small as a checkout can be: the folders that are looked for, one program, one tag and a commit after it.
    fn commit_sample(folder: &Path) {
        let program = "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n";
        for (path, text) in [
            ("go.mod", "module k8s.io/kubernetes\n\ngo 1.21\n"),
            ("cmd/kubeadm/kubeadm.go", program),
            ("staging/src/k8s.io/component-base/README.md", ""),
        ] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let git = |args: &[&str]| {
            let who = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
            Command::new("git").args(who).args(args).current_dir(folder).run().unwrap();
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "upstream's"]);
        git(&["tag", "v1.36.3"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "my own"]);
    }

    #[test]
    fn a_checkout_is_built_under_the_name_that_its_tags_give_it() {
        let folder = fixture::folder();
        let checkout_folder = folder.path().join("kubernetes");
        commit_sample(&checkout_folder);
        let checkout = Checkout::inspect(&checkout_folder, None).unwrap();
        assert!(checkout.version.starts_with("v1.36.3-1+"), "{}", checkout.version);
        assert_eq!(Checkout::inspect(&checkout_folder, Some("v1.36.9")).unwrap().version, "v1.36.9");

        let how = GoComponent {
            module: "k8s.io/kubernetes".into(),
            programs: vec!["k8s.io/kubernetes/cmd/kubeadm".into()],
            rename: BTreeMap::new(),
            tags: Vec::new(),
            cgo: false,
            stamp: BTreeMap::from([("main.version".into(), "{version}".into())]),
            seconds: 1,
            versions: BTreeMap::new(),
        };
        let kind = Kind::Checkout { how: how.clone(), checkout: checkout.clone() };
        let component = Component { name: "kubernetes".into(), version: checkout.version.clone(), kind };
        let (files, scratch) = (folder.path().join("files"), folder.path().join("scratch"));
        for folder in [&files, &scratch] {
            fs::create_dir(folder).unwrap();
        }
        let at = Workplace { files: &files, scratch: &scratch };
        let events = Events::default();
        let step = Step::start(&events, "kubernetes", "", None);
        let source = BuildSource::new(folder.path().join("cache"), Cancel::new());
        let from = source.build_checkout(&component, &how, &checkout, &at, &step).unwrap();
        assert!(matches!(from, Provenance::Checkout { commit, .. } if commit == checkout.commit));
        let said = Command::new(files.join("kubeadm")).run().unwrap().stderr;
        assert_eq!(String::from_utf8_lossy(&said).trim(), checkout.version);
    }

    #[test]
    fn a_description_becomes_a_semantic_version() {
        assert_eq!(semantic("v1.37.1"), "v1.37.1");
        assert_eq!(semantic("v1.37.1-5-g0123456789abcd"), "v1.37.1-5+0123456789abcd");
        assert_eq!(semantic("v1.38.0-alpha.1-12-gfeedfacecafe00"), "v1.38.0-alpha.1.12+feedfacecafe00");
    }

    #[test]
    fn a_folder_without_kubernetes_is_refused() {
        let dir = fixture::folder();
        let error = Checkout::inspect(dir.path(), None).unwrap_err();
        assert!(error.to_string().ends_with("is not a Kubernetes checkout: it has no go.mod"), "{error}");
    }
}
