//! Go components: one small module of ours each, whose go.mod and go.sum pin every line of source.

use std::path::Path;

use flotilla_core::Unit;
use flotilla_core::event::Step;
use flotilla_linux::host::{Command, CommandError};

use super::BuildSource;
use crate::error::{At, BundleError, Result};
use crate::lock::{GoComponent, GoPin};
use crate::part::{Parts, check_recipe};
use crate::recipe::{self, RecipeFile};
use crate::source::{Component, Kind, Provenance, Workplace};

impl BuildSource {
    pub(super) fn build_module(
        &self,
        component: &Component,
        (how, pin): (&GoComponent, &GoPin),
        parts: &Parts,
        at: &Workplace<'_>,
        step: &Step<'_>,
    ) -> Result<Provenance> {
        let files = recipe::go_module(&component.name, &component.version);
        check_recipe(component, &files, &pin.recipe)?;
        check_sum(component, how, pin, &files)?;
        // Below the directory for temporary files, because Go ignores a module that is right in it.
        let module = at.scratch.join("module");
        std::fs::create_dir(&module).at("make", &module)?;
        recipe::write(&files, &module)?;
        let library = how.cgo.then(|| parts.get("userland").path("devel"));
        let go = || {
            let go = self.go(&module, at).env("CGO_ENABLED", if how.cgo { "1" } else { "0" });
            match &library {
                None => go,
                // The header and the library are ours; there is nothing for pkg-config to find on the host.
                Some(devel) => go
                    .env("PKG_CONFIG", "true")
                    .env("CGO_CFLAGS", format!("-O2 -I{}", devel.display()))
                    .env("CGO_LDFLAGS", format!("-L{} -lseccomp", devel.display())),
            }
        };
        let stamp = Stamp { version: &component.version, date: &pin.date };
        compile(&go, how, &stamp, at.files, step).map_err(|error| checksum_error(component, error))?;
        Ok(Provenance::GoModule {
            module: format!("{}@{}", how.module, component.version),
            sum: pin.sum.clone(),
        })
    }
}

/// What is written into the programs.
pub(super) struct Stamp<'a> {
    pub(super) version: &'a str,
    pub(super) date: &'a str,
}

impl Stamp<'_> {
    fn fill(&self, template: &str) -> String {
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        template
            .replace("{version}", self.version)
            .replace("{major}", major)
            .replace("{minor}", minor)
            .replace("{date}", self.date)
    }
}

/// Runs `go build`, counting packages; `go` gives a fresh command in the module's directory.
pub(super) fn compile(
    go: &dyn Fn() -> Command,
    how: &GoComponent,
    stamp: &Stamp<'_>,
    into: &Path,
    step: &Step<'_>,
) -> Result<(), CommandError> {
    let tags = format!("-tags={}", how.tags.join(","));
    let (mut downloads, mut total) = (0, 0);
    go().arg("list").arg("-deps").arg(&tags).args(&how.programs).stream(|line| {
        if let Some(module) = line.text.strip_prefix("go: downloading ") {
            downloads += 1;
            step.progress(downloads, None, Unit::Packages, format!("downloading {module}"));
        } else {
            total += 1;
        }
    })?;

    // Without a build id, which would depend on where the directories of this build are.
    let mut flags = vec!["-s -w -buildid=".to_owned()];
    flags.extend(how.stamp.iter().map(|(name, value)| format!("-X {name}={}", stamp.fill(value))));
    if how.cgo {
        flags.push("-linkmode external -extldflags \"-static -Wl,--build-id=none\"".into());
    }
    let mut compiled = 0;
    go().args(["build", "-v", "-trimpath", "-buildvcs=false", &tags])
        // Debugging information is left out in the end: not making it saves another twentieth, and a fifth of the cache.
        .arg("-gcflags=all=-dwarf=false")
        .arg(format!("-ldflags={}", flags.join(" ")))
        .arg("-o")
        .arg(format!("{}/", into.display()))
        .args(&how.programs)
        .stream(|line| {
            compiled += 1;
            // A program comes after all its packages, and linking it takes longer than compiling it.
            let detail = match how.programs.iter().find(|program| **program == line.text) {
                Some(program) => format!("linking {program}"),
                None => line.text,
            };
            step.progress(compiled.min(total), Some(total), Unit::Packages, detail);
        })?;
    for (from, to) in &how.rename {
        let (from, to) = (into.join(from), into.join(to));
        std::fs::rename(&from, to).map_err(|source| CommandError::Read { program: "go".into(), source })?;
    }
    Ok(())
}

/// The lock file's checksum of the main module must be the one that go.sum makes Go insist on.
fn check_sum(component: &Component, how: &GoComponent, pin: &GoPin, files: &[RecipeFile]) -> Result<()> {
    let start = format!("{} {} ", how.module, component.version);
    let sums =
        files.iter().find(|file| file.name == "go.sum").map(|file| String::from_utf8_lossy(&file.bytes));
    let actual = sums.as_deref().and_then(|sums| sums.lines().find_map(|line| line.strip_prefix(&start)));
    if actual == Some(pin.sum.as_str()) {
        return Ok(());
    }
    Err(BundleError::Checksum {
        component: component.title(),
        what: format!("{} in go.sum", how.module),
        expected: pin.sum.clone(),
        actual: actual.unwrap_or("none").to_owned(),
    })
}

/// Go's own complaint about a module that is not what go.sum says, as ours. Go does not keep that module.
fn checksum_error(component: &Component, error: CommandError) -> BundleError {
    let tail = error.tail();
    let after = |start: &str| tail.iter().find_map(|line| line.trim().strip_prefix(start)).map(str::trim);
    let module =
        tail.iter().find_map(|line| line.split_once("verifying ")?.1.strip_suffix(": checksum mismatch"));
    match (module, after("go.sum:"), after("downloaded:")) {
        (Some(module), Some(expected), Some(actual)) => BundleError::Checksum {
            component: component.title(),
            what: format!("the module {module}"),
            expected: expected.to_owned(),
            actual: actual.to_owned(),
        },
        _ => error.into(),
    }
}

/// The newest Go language version that any of the components asks for: `1.26.0`.
pub(super) fn newest_language(components: &[Component]) -> String {
    let versions =
        components.iter().filter(|component| matches!(component.kind, Kind::Go { .. })).filter_map(|c| {
            let files = recipe::go_module(&c.name, &c.version);
            let text = files
                .into_iter()
                .find(|file| file.name == "go.mod")
                .map(|file| file.bytes)
                .unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.lines().find_map(|line| line.strip_prefix("go ").map(str::to_owned))
        });
    versions.max_by_key(|version| numbers(version)).unwrap_or_default()
}

/// Whether `go1.24.3` cannot build what asks for `1.26.0`.
pub(super) fn older(have: &str, wanted: &str) -> bool {
    // Go built from its own source calls itself `devel go1.28-0123456`.
    let have = have.rsplit_once("go").map_or(have, |(_, version)| version);
    numbers(have) < numbers(wanted)
}

/// The numbers at the beginning: `1.27rc1` is 1.27, which is newer than every 1.26 and older than 1.27.0.
fn numbers(version: &str) -> Vec<u32> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    version[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
