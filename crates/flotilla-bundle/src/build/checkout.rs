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
    use super::semantic;

    #[test]
    fn a_description_becomes_a_semantic_version() {
        assert_eq!(semantic("v1.37.1"), "v1.37.1");
        assert_eq!(semantic("v1.37.1-5-g0123456789abcd"), "v1.37.1-5+0123456789abcd");
        assert_eq!(semantic("v1.38.0-alpha.1-12-gfeedfacecafe00"), "v1.38.0-alpha.1.12+feedfacecafe00");
    }

    #[test]
    fn a_folder_without_kubernetes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = super::Checkout::inspect(dir.path(), None).unwrap_err();
        assert!(error.to_string().ends_with("is not a Kubernetes checkout: it has no go.mod"), "{error}");
    }
}
