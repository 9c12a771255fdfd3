//! What all rounds of commands share: the cluster they are about, how often they are done, and what is reported of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flotilla_engine::store::ClusterStore;
use flotilla_spec::ClusterName;
use serde_json::{Value, json};

use super::command::Flotilla;
use super::figures::{Figure, Summary};
use super::node;
use crate::program;

/// Above this load average the machine has other work, and the figures say more about that.
const BUSY: f64 = 0.5;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often all of it is done
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Write every figure of every run to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Another flotilla to compare with: each run is done with both, one after the other
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// Go on with the next run after one that failed
    #[arg(long)]
    keep_going: bool,
    /// Name of the cluster that is made; there must be none
    #[arg(short, long, value_name = "NAME", default_value = "bench")]
    profile: ClusterName,
    /// The state directory, with a bundle in it [default: ~/.flotilla]
    #[arg(long, value_name = "FOLDER", env = "FLOTILLA_HOME")]
    home: Option<PathBuf>,
}

/// Does the round so often, and tells what came out. It is given the image that does nothing.
pub(super) fn run(
    project: &Path,
    program: String,
    args: &Args,
    round: &impl AsyncFn(&Flotilla, &str) -> Result<Vec<Figure>>,
) -> Result<()> {
    let home = args.home.clone().or_else(|| Some(std::env::home_dir()?.join(".flotilla")));
    let home = home.context("no home directory: name a state directory with --home")?;
    let store = ClusterStore::new(&home);
    let cluster = args.profile.clone();
    ensure!(
        !store.folder(&cluster).exists(),
        "there is a cluster {cluster}: `flotilla delete -p {cluster}`, or choose another name with -p"
    );
    // Nobody's kubeconfig is changed.
    let scratch = tempfile::Builder::new().prefix("flotilla-bench-").tempdir()?;
    let bundle = bundle(project, &program, &home)?;
    let flotilla = Flotilla { program, home, kubeconfig: scratch.path().join("config"), cluster };
    let other = args.against.as_ref().map(|path| path.display().to_string());
    let other = other.map(|program| Flotilla { program, ..flotilla.clone() });
    let machine = machine()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut runs, mut other_runs): (Vec<Vec<Figure>>, Vec<Vec<Figure>>) = (Vec::new(), Vec::new());
    for number in 1..=args.runs {
        for (flotilla, runs) in [(Some(&flotilla), &mut runs), (other.as_ref(), &mut other_runs)] {
            let Some(flotilla) = flotilla else { continue };
            println!("run {number} of {} (load average {})", args.runs, load_average()?);
            let done = runtime.block_on(round(flotilla, &bundle.pause));
            if done.is_err() {
                // A run that ended in the middle leaves its cluster. The error to report is the first one.
                let _ = flotilla.run(&["delete", "-o", "json"]);
            }
            match done {
                Ok(figures) => runs.push(figures),
                Err(error) if args.keep_going => println!("run {number} failed: {error:#}"),
                Err(error) => return Err(error.context(format!("run {number} failed"))),
            }
        }
    }
    ensure!(!runs.is_empty(), "no run came to its end");
    let summary = Summary::of(&runs);
    println!("\nKubernetes {}, runs: {}\n\n{summary}", bundle.kubernetes, runs.len());
    let comparison = other.map(|_| summary.against(&Summary::of(&other_runs)));
    if let Some(comparison) = &comparison {
        println!("{comparison}");
    }
    if let Some(path) = &args.json {
        let all = json!({
            "machine": machine,
            "kubernetes": bundle.kubernetes,
            "summary": summary,
            "against": comparison,
            "runs": runs,
        });
        fs::write(path, serde_json::to_string_pretty(&all)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What the nodes are made from.
struct Bundle {
    kubernetes: String,
    /// The image that is in every bundle and does nothing.
    pause: String,
}

/// Finds the bundle, or makes it: `start` is to find it there.
fn bundle(project: &Path, program: &str, home: &Path) -> Result<Bundle> {
    let home = home.to_str().context("the state directory's path is UTF-8")?;
    let argv = [program, "bundle", "build", "-o", "json"];
    let events = program::run(&argv, project, &[("FLOTILLA_HOME", home)])?;
    let last: Value = serde_json::from_str(events.lines().last().unwrap_or_default())?;
    let folder = last["data"]["path"].as_str().context("`bundle build` printed no path")?;
    let manifest: flotilla_bundle::Manifest =
        serde_json::from_slice(&fs::read(Path::new(folder).join("manifest.json"))?)?;
    let pause = manifest.images.iter().find(|image| image.contains("/pause:"));
    Ok(Bundle {
        pause: pause.context("the bundle has no pause image")?.clone(),
        kubernetes: manifest.kubernetes,
    })
}

/// What the figures were taken on. Says so if it has other work.
fn machine() -> Result<Value> {
    let first_line = |path: &str, start: &str| -> Result<String> {
        let text = fs::read_to_string(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
        Ok(line.trim_start_matches([':', '\t', ' ']).to_owned())
    };
    let load = load_average()?;
    let others = node::running()?;
    if load > BUSY || !others.is_empty() {
        println!("warning: this machine is busy: load average {load}, running clusters: {}", others.len());
        println!("warning: the times will be too long");
    }
    Ok(json!({
        "processors": std::thread::available_parallelism()?,
        "processor": first_line("/proc/cpuinfo", "model name")?,
        "memory": first_line("/proc/meminfo", "MemTotal")?,
        "kernel": first_line("/proc/sys/kernel/osrelease", "")?,
        "load": load,
        "otherClusters": others,
    }))
}

/// The load average of the last minute.
fn load_average() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    text.split_whitespace().next().unwrap_or_default().parse().context("the load average is a number")
}
