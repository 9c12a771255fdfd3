//! Running other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program in a directory and returns what it printed. Its standard error is the developer's.
///
/// `environment` is added to our own.
#[expect(clippy::disallowed_methods, reason = "the product's wrapper is for nodes and hosts, not for tasks")]
pub(crate) fn run(argv: &[&str], folder: &Path, environment: &[(&str, &str)]) -> Result<String> {
    let line = argv.join(" ");
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .current_dir(folder)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{line}`"))?;
    let stdout = String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed no UTF-8"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})\n{stdout}", output.status);
    }
    Ok(stdout)
}
