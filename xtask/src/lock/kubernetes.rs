//! Locking a Kubernetes version and what goes with it.

use std::fs;

use anyhow::{Context, Result};
use flotilla_bundle::lock::Release;

use super::{LockFile, go};

/// Where kubeadm says which versions it wants.
const CONSTANTS: &str = "cmd/kubeadm/app/constants/constants.go";

pub(super) fn lock(file: &mut LockFile, version: &str) -> Result<()> {
    let download = go::lock(file, "kubernetes", version)?;
    let text = fs::read_to_string(download.dir.join(CONSTANTS))?;
    let release =
        parse_constants(&text).with_context(|| format!("kubeadm {version} has another {CONSTANTS}"))?;
    for (name, wanted) in [("etcd", &release.etcd), ("coredns", &release.coredns)] {
        if file.read()?.pin(name, wanted).is_err() {
            go::lock(file, name, wanted)?;
        }
    }
    let path = ["release", version];
    file.set(&path, "etcd", release.etcd)?;
    file.set(&path, "coredns", release.coredns)?;
    file.set(&path, "pause", release.pause)?;
    file.sort_versions(&path[..1])
}

fn parse_constants(text: &str) -> Result<Release> {
    // The image is 3.7.0-0: upstream's version and a count of images made of it.
    let image = constant(text, "DefaultEtcdVersion")?;
    let etcd = image.split_once('-').map_or(image, |(version, _)| version);
    Ok(Release {
        etcd: format!("v{etcd}"),
        coredns: constant(text, "CoreDNSVersion")?.to_owned(),
        pause: constant(text, "PauseVersion")?.to_owned(),
    })
}

/// The value of a string constant of a Go source.
fn constant<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    let value = |line: &'a str| {
        let value = line.trim().strip_prefix(name)?.trim_start().strip_prefix('=')?;
        value.trim().strip_prefix('"')?.strip_suffix('"')
    };
    text.lines().find_map(value).with_context(|| format!("no string constant {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
const (
	// DefaultEtcdVersion indicates the default etcd version that kubeadm uses
	DefaultEtcdVersion = "3.7.0-0"

	// CoreDNSVersion is the version of CoreDNS to be deployed if it is used
	CoreDNSVersion = "v1.14.6"

	// PauseVersion indicates the default pause image version for kubeadm
	PauseVersion = "3.10.2"
)
"#;

    #[test]
    fn versions_are_those_in_kubeadms_constants() {
        let release = parse_constants(TEXT).unwrap();
        assert_eq!((release.etcd.as_str(), release.coredns.as_str()), ("v3.7.0", "v1.14.6"));
        assert_eq!(release.pause, "3.10.2");
    }

    #[test]
    fn a_missing_constant_is_named() {
        let error =
            parse_constants("PauseVersionOld = \"3.1\"\nDefaultEtcdVersion = \"3.7.0-0\"").unwrap_err();
        assert_eq!(error.to_string(), "no string constant CoreDNSVersion");
    }
}
