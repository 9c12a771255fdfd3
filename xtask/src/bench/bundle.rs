//! `cargo xtask bench bundle`: how long it takes to build a bundle.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::program;

pub(super) fn run(project: &Path, flotilla: &str, versions: &[String], json: bool) -> Result<()> {
    // Cargo may have its own elsewhere.
    let target = project.join("target");
    fs::create_dir_all(&target)?;
    let home = tempfile::Builder::new().prefix("bench-").tempdir_in(target)?;
    let bench = Bench { flotilla, home: home.path() };
    let mut rows = Vec::new();
    for version in versions {
        rows.extend(bench.build(version)?);
        // Again: now it exists.
        rows.push(json!({"version": version, "step": "found", "seconds": bench.timed(version)?.0}));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        for row in &rows {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            println!(
                "{:<10} {:<14} {:>8.2} s",
                text("version"),
                text("step"),
                row["seconds"].as_f64().unwrap_or(0.0)
            );
        }
    }
    Ok(())
}

struct Bench<'a> {
    flotilla: &'a str,
    home: &'a Path,
}

impl Bench<'_> {
    /// Builds a version. Gives the seconds of each step that was not kept, and of the whole.
    fn build(&self, version: &str) -> Result<Vec<Value>> {
        let (seconds, events) = self.timed(version)?;
        let mut rows = Vec::new();
        for event in events.lines().map(serde_json::from_str::<Value>) {
            let event = event.context("an event is JSON")?;
            let data = &event["data"];
            if event["type"] == "dev.flotilla.step.done" && data["outcome"] == "done" {
                let seconds = data["seconds"].as_f64().unwrap_or_default();
                rows.push(json!({"version": version, "step": data["name"], "seconds": seconds}));
            }
        }
        rows.push(json!({"version": version, "step": "all", "seconds": seconds}));
        Ok(rows)
    }

    fn timed(&self, version: &str) -> Result<(f64, String)> {
        let home = self.home.to_str().context("the project's path is UTF-8")?;
        fs::create_dir_all(self.home)?;
        let argv = [
            self.flotilla,
            "bundle",
            "build",
            "--source=build",
            "--kubernetes-version",
            version,
            "-o",
            "json",
        ];
        let start = Instant::now();
        let events = program::run(&argv, self.home, &[("FLOTILLA_HOME", home)])?;
        Ok((start.elapsed().as_secs_f64(), events))
    }
}
