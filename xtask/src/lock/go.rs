//! Locking one version of a Go component.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flotilla_bundle::lock::GoComponent;
use serde::Deserialize;

use super::module::{self, Upstream};
use super::{LockFile, recipes};
use crate::program;

/// A module in Go's cache, as `go mod download -json` prints it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Download {
    version: String,
    sum: String,
    info: PathBuf,
    go_mod: PathBuf,
    /// The module's sources.
    pub(super) dir: PathBuf,
}

/// What the module proxy tells about a version.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    time: String,
}

/// What makes Go believe modules without its checksum database.
const UNSET: [&str; 5] = ["GOSUMDB", "GONOSUMDB", "GONOSUMCHECK", "GOPRIVATE", "GOINSECURE"];

/// Writes go.mod, go.sum and the pin. Nothing is written for a module that Go could not build from.
pub(super) fn lock(file: &mut LockFile, name: &str, version: &str) -> Result<Download> {
    let lock = file.read()?;
    let component = lock.go.get(name).with_context(|| format!("the lock file has no [go.{name}]"))?;
    let scratch = tempfile::tempdir()?;
    let download = download(&component.module, version, scratch.path())?;

    println!("{name} {version}: go mod tidy");
    for shared in recipes::shared_files(&file.folder, name)? {
        fs::write(scratch.path().join(&shared.name), &shared.bytes)?;
    }
    let upstream = upstream(&download, scratch.path())?;
    fs::write(scratch.path().join("go.mod"), module::render(name, component, version, &upstream))?;
    go(&["mod", "tidy"], scratch.path(), &[])?;
    ensure_buildable(component, scratch.path())?;

    let folder = file.folder.join("go").join(name).join(version);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for part in ["go.mod", "go.sum"] {
        fs::copy(scratch.path().join(part), folder.join(part))
            .with_context(|| format!("cannot write {part} in {}", folder.display()))?;
    }

    let info: Info = serde_json::from_str(&fs::read_to_string(&download.info)?)?;
    let pin = ["go", name, "versions", version];
    file.set(&pin, "sum", &download.sum)?;
    file.set(&pin, "recipe", recipes::of_go_module(&file.folder, name, version)?)?;
    file.set(&pin, "date", info.time)?;
    file.sort_versions(&pin[..3])?;
    if lock.tools.contains_key(name) {
        file.set(&["tools"], name, version)?;
    }
    Ok(download)
}

fn download(module: &str, version: &str, scratch: &Path) -> Result<Download> {
    let json = go(&["mod", "download", "-json", &format!("{module}@{version}")], scratch, &[])?;
    let download: Download = serde_json::from_str(&json)?;
    ensure!(download.version == version, "Go takes {version} for {}: say which you mean", download.version);
    Ok(download)
}

fn upstream(download: &Download, scratch: &Path) -> Result<Upstream> {
    let path = download.go_mod.to_str().context("Go's module cache has a path that is no UTF-8")?;
    Ok(serde_json::from_str(&go(&["mod", "edit", "-json", path], scratch, &[])?)?)
}

/// Resolves every package of the programs the way a build does, where a missing line in go.sum is an error.
fn ensure_buildable(component: &GoComponent, scratch: &Path) -> Result<()> {
    let tags = component.tags.join(",");
    let mut arguments = vec!["list", "-deps", "-mod=readonly", "-tags", &tags];
    arguments.extend(component.programs.iter().map(String::as_str));
    go(&arguments, scratch, &[("CGO_ENABLED", if component.cgo { "1" } else { "0" })])?;
    Ok(())
}

/// Runs the host's go, without the settings a developer may have for their own work: what is pinned here is checked
/// against Go's own checksum database, whatever they have switched off. Only where modules come from is theirs.
fn go(arguments: &[&str], folder: &Path, environment: &[(&str, &str)]) -> Result<String> {
    let proxy = program::run(&["go", "env", "GOPROXY"], folder, &[])?;
    let argv = [&["env"], &UNSET.map(|name| ["-u", name]).concat()[..], &["go"], arguments].concat();
    let ours = [
        ("GOENV", "off"),
        ("GOFLAGS", ""),
        ("GOWORK", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOPROXY", proxy.trim()),
    ];
    program::run(&argv, folder, &[&ours, environment].concat())
}
