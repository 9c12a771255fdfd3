//! Compiling everything once: all test binaries, and the program that some of them run.
//!
//! Always the same selection of packages and targets: with another one cargo chooses other features of dependencies, and
//! compiles them again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program::Program;

const CARGO: [&str; 5] = ["cargo", "test", "--workspace", "--locked", "--no-run"];

/// What was compiled.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) tests: Vec<Binary>,
    pub(crate) flotilla: PathBuf,
}

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary {
    /// Its package, and its target if that is not the library: `flotilla::cli`.
    pub(crate) name: String,
    /// The directory of its package, in which it runs.
    pub(crate) folder: PathBuf,
    pub(crate) path: PathBuf,
}

pub(crate) fn program() -> Program {
    Program::new(CARGO)
}

/// What [`program`] has compiled.
pub(crate) fn compiled() -> Result<Compiled> {
    let listed = Program::new(CARGO).with(["--quiet", "--message-format=json"]).answer();
    let compiled = read(&listed.context("cargo does not list what it compiled")?)?;
    anyhow::ensure!(compiled.flotilla.is_absolute(), "cargo did not compile the program itself");
    Ok(compiled)
}

/// A line of cargo's, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn read(messages: &str) -> Result<Compiled> {
    let mut compiled = Compiled::default();
    for line in messages.lines() {
        let message: Message =
            serde_json::from_str(line).context("cargo printed something else than JSON")?;
        let Message { manifest_path: Some(manifest), target: Some(target), executable: Some(path), .. } =
            message
        else {
            continue;
        };
        let folder = manifest.parent().unwrap_or(Path::new("/"));
        if message.profile.is_some_and(|profile| profile.test) {
            let name = name(folder, &target);
            compiled.tests.push(Binary { name, folder: folder.to_owned(), path });
        } else if target.name == "flotilla" {
            compiled.flotilla = path;
        }
    }
    compiled.tests.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(compiled)
}

fn name(folder: &Path, target: &Target) -> String {
    let package = folder.file_name().unwrap_or_default().to_string_lossy();
    match target.kind.first().map(String::as_str) {
        Some("lib") => package.into_owned(),
        Some("bin") => format!("{package}::main"),
        _ => format!("{package}::{}", target.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_and_the_program_are_told_apart() {
        let artifact = |package: &str, kind: &str, name: &str, test: bool, path: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/src/crates/{package}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":{path}}}"#
            )
        };
        let messages = [
            r#"{"reason":"build-script-executed"}"#.to_owned(),
            artifact("flotilla-core", "lib", "flotilla_core", false, "null"),
            artifact("flotilla-core", "lib", "flotilla_core", true, r#""/t/core""#),
            artifact("flotilla", "test", "cli", true, r#""/t/cli""#),
            artifact("flotilla", "bin", "flotilla", true, r#""/t/main""#),
            artifact("flotilla", "bin", "flotilla", false, r#""/t/flotilla""#),
        ];
        let compiled = read(&messages.join("\n")).unwrap();
        let names: Vec<_> = compiled.tests.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(names, ["flotilla-core", "flotilla::cli", "flotilla::main"]);
        assert_eq!(compiled.tests[0].folder, Path::new("/src/crates/flotilla-core"));
        assert_eq!(compiled.flotilla, Path::new("/t/flotilla"));
    }
}
