//! `flotilla start`

mod asked;
pub(crate) mod request;
pub(crate) mod wait;

use std::path::Path;

use flotilla_bundle::BundleStore;
use flotilla_core::explain::{DEFAULT_CLUSTER, profile_flag};
use flotilla_core::{Allocations, Cluster, Event};
use flotilla_core::{Changed, Finding, Power, Severity};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Wait;
use flotilla_engine::plan::{self, Observed};
use flotilla_engine::store::Ranges;
use flotilla_kubeadm::flannel_manifest;
use flotilla_ops::{OpError, bring_up};
use flotilla_spec::error::SpecError;
use flotilla_spec::{ClusterFile, ClusterName, ClusterSpec, Cni, NodeName, NodeSpec, WantedPower};
use serde_json::json;

use crate::args::{LockArgs, StartArgs};
use crate::cluster::{Cx, bundles, fatal, prepare, ranges, this_host};
use crate::commands::file::{self, FileError};
use crate::screen::Screen;
use crate::wiring::Wiring;

use asked::Asked;
use request::Wanted;

/// How a cluster is started.
#[derive(Debug, Clone)]
pub(crate) struct How {
    pub(crate) wait: Wait,
    pub(crate) dry_run: bool,
    /// Whatever the host checks find.
    pub(crate) force: bool,
    /// A bundle that is not there is built without a question.
    pub(crate) yes: bool,
    pub(crate) lock: LockArgs,
}

pub(crate) fn run(
    profile: Option<&str>,
    args: &StartArgs,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<(), OpError> {
    let how = |conditions| How {
        wait: Wait { conditions, limit: args.wait_timeout },
        dry_run: args.dry_run,
        force: args.force,
        yes: args.yes,
        lock: args.lock,
    };
    if let Some(path) = &args.file {
        let (cx, file) = file::open(profile, path, screen, wiring)?;
        return from_file(&cx, &file, path, &how(wait::conditions(&args.wait)?));
    }
    let cx = Cx::new(profile.unwrap_or(DEFAULT_CLUSTER), screen, wiring)?;
    let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
    let wanted = Wanted::parse(args, &cx.name, bundle_store.default_version())?;
    if let Some(text) = wanted.raised() {
        cx.screen.reporter().report(Event::Note { text });
    }
    let how = how(wanted.wait.clone());
    start(&cx, &bundle_store, &Asked::Typed(wanted), Path::new(""), &how)
}

/// Starts the cluster of a file that is at that path.
pub(crate) fn from_file(cx: &Cx, file: &ClusterFile, path: &Path, how: &How) -> Result<(), OpError> {
    let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
    let spec = file.expanded(&bundle_store.default_version().parse()?);
    let folder = path.parent().unwrap_or(path);
    start(cx, &bundle_store, &Asked::File(file, spec), folder, how)
}

/// Everything that was asked for is checked before anything is looked at, and that before anything is changed. Files
/// that the spec names are looked for from `folder`.
fn start(
    cx: &Cx,
    bundle_store: &BundleStore,
    asked: &Asked<'_>,
    folder: &Path,
    how: &How,
) -> Result<(), OpError> {
    let mut problems = asked.problems(&this_host());
    if let Ok(Some(known)) = cx.store.load(&cx.name) {
        problems = known.spec.new_problems(problems, &this_host());
    }
    problems.extend(prepare::version_problem(bundle_store, asked.spec())?);
    prepare::refuse(problems, asked.file())?;
    cx.require_root()?;
    let known = cx.store.load(&cx.name)?;
    let is_new = known.is_none();
    // Only a new cluster gets a pod network.
    let manifest = asked.spec().network.cni.manifest().filter(|_| is_new);
    let cni = manifest.map(|path| file::read(&folder.join(path))).transpose()?;
    let spec = if let Some(known) = known {
        let spec = asked.merged_into(cx, &known)?;
        if asked.sizes_given() {
            tell_sizes(cx, &known.spec, &spec);
        }
        spec
    } else {
        let mut spec = asked.spec().clone();
        spec.hand_over_primary(&[]);
        spec
    };
    if spec.primary().power == WantedPower::Stopped {
        return Err(FileError::NothingToStart { cluster: cx.name.clone() }.into());
    }
    check_host(cx, bundle_store, &spec, how)?;
    if is_new {
        check_new(cx, &spec, asked.file())?;
    } else {
        ranges::check(cx, &cx.store.get(&cx.name)?, how.force)?;
    }
    if how.dry_run {
        return dry_run(cx, &spec, &how.wait);
    }
    if !bundles::agreed(cx, bundle_store, &spec, how.yes)? {
        return Ok(());
    }
    cx.handle_signals()?;
    prepare::warn(cx, &spec);
    let bundles = bundles::take(cx, bundle_store, &spec, is_new)?;

    let locked = cx.lock(&cx.name, "flotilla start", how.lock)?;
    // Another command may have changed it while we waited.
    let mut pending = Vec::new();
    let mut cluster = if let Some(known) = cx.store.load(&cx.name)? {
        cx.wait(cx.engine().finish_stop(&known))?;
        let spec = asked.merged_into(cx, &known)?;
        pending = sizes_that_wait(cx, &known.spec, &spec)?;
        let mut cluster = Cluster { spec, ..known };
        if asked.file().is_some() {
            // A node whose removal was killed stays if the file has it.
            let is_listed = |name: &NodeName| asked.spec().nodes.iter().any(|node| node.name == *name);
            cluster.allocations.leaving.retain(|name| !is_listed(name));
        }
        cx.store.save(&cluster)?;
        cluster
    } else {
        // Two new clusters must not choose the same ranges: until ours are saved, others wait.
        let _alone = cx.store.allocation_lock()?;
        let made = new_cluster(cx, spec, bundles.cluster.clone()).and_then(|mut cluster| {
            cluster.allocations.bundles.clone_from(&bundles.nodes);
            cluster.allocations.cni = match cluster.spec.network.cni {
                Cni::Flannel => Some(flannel_manifest(&cluster)),
                _ => cni,
            };
            // Others may have taken something while the bundle was built.
            let mut problems = prepare::host_problems(cx, &cluster)?;
            problems.extend(prepare::name_problem(cx));
            prepare::refuse(problems, asked.file())?;
            cx.store.save(&cluster)?;
            Ok(cluster)
        });
        if made.is_err() {
            // Else the lock would be all there is of it.
            cx.store.remove(&cx.name)?;
        }
        made?
    };
    let changed = cx.wait(bring_up::start(&cx.context(), &locked, &mut cluster, &how.wait))?;
    tell(cx.screen, &cluster, changed, &pending);
    Ok(())
}

/// Findings that change nothing about how a cluster is made: `doctor` shows them, `start` does not repeat them.
const ONLY_DOCTOR: [&str; 1] = ["HOST_NO_OOM_SCORES"];

/// Only a fatal finding stops it. Warnings are shown once, when the cluster is made.
fn check_host(cx: &Cx, bundle_store: &BundleStore, spec: &ClusterSpec, how: &How) -> Result<(), OpError> {
    let is_new = cx.store.load(&cx.name)?.is_none();
    let findings = cx.examine(bundle_store, &spec.kubernetes_version);
    let is_news = |finding: &&Finding| {
        is_new
            && !how.dry_run
            && finding.severity == Severity::Warning
            && !ONLY_DOCTOR.contains(&finding.code)
    };
    for finding in findings.iter().filter(is_news) {
        let text = format!("{} ({})", finding.text, finding.cure);
        cx.screen.reporter().report(Event::Warning { text });
    }
    let fatal = fatal(findings);
    if !fatal.is_empty() && !how.force {
        return Err(EngineError::Host(fatal).into());
    }
    Ok(())
}

/// What a new cluster wants of the host and cannot have: ranges, names and ports that others have, versions, folders and
/// bundles that are not there. Told before anything is built. Changes nothing.
pub(crate) fn check_new(cx: &Cx, spec: &ClusterSpec, file: Option<&ClusterFile>) -> Result<(), OpError> {
    let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
    let mut problems = spec.network.taken(&cx.subnets_in_use()?.taken);
    problems.extend(prepare::name_problem(cx));
    problems.extend(prepare::version_problem(&bundle_store, spec)?);
    problems.extend(prepare::bundle_problems(&bundle_store, spec, spec.nodes.iter())?);
    match with_ranges(cx, spec.clone(), String::new())? {
        Ok(mut cluster) => {
            problems.extend(cluster.allocate().err());
            problems.extend(prepare::host_problems(cx, &cluster)?);
        }
        Err(problem) => problems.push(problem),
    }
    prepare::refuse(problems, file)
}

/// Chooses what the person left open, once and for all.
fn new_cluster(cx: &Cx, spec: ClusterSpec, bundle: String) -> Result<Cluster, OpError> {
    let mut cluster = with_ranges(cx, spec, bundle)??;
    cluster.allocate()?;
    Ok(cluster)
}

/// A cluster whose nodes have no addresses yet, or what is not free any more.
fn with_ranges(cx: &Cx, spec: ClusterSpec, bundle: String) -> Result<Result<Cluster, SpecError>, OpError> {
    let Ranges { taken, unknown } = cx.subnets_in_use()?;
    let others: Vec<_> = taken.into_iter().map(|(range, _)| range).collect();
    let network = &spec.network;
    // One that nobody knows could be chosen a second time.
    if let Some(cluster) = unknown.into_iter().next()
        && (network.subnet.is_none() || network.pod_subnet.is_none())
    {
        return Err(EngineError::RangesUnknown { cluster }.into());
    }
    let none_left = |what: &str| Ok(Err(SpecError::NoFreeRange { what: what.to_owned() }));
    let Some(subnet) = network.subnet.or_else(|| network.choose_subnet(&others)) else {
        return none_left("nodes");
    };
    let Some(pod_subnet) = network.pod_subnet.or_else(|| network.choose_pod_subnet(&others)) else {
        return none_left("pods");
    };
    Ok(Ok(Cluster { spec, allocations: Allocations::new(subnet, pod_subnet, bundle) }))
}

/// Which nodes get the size that was typed: those that have their own keep it.
fn tell_sizes(cx: &Cx, before: &ClusterSpec, after: &ClusterSpec) {
    let changed: Vec<_> = resized(before, after).map(ToString::to_string).collect();
    let text = match changed.as_slice() {
        [] => "no node's size changes: `flotilla node update` changes those that have their own".to_owned(),
        names if names.len() == after.nodes.len() => return,
        [name] => format!("{name} changes its size, the others have their own"),
        names => format!("{} change their size, the others have their own", names.join(", ")),
    };
    cx.screen.reporter().report(Event::Note { text });
}

/// The nodes that run with the size that they had: they get their new one when they boot.
fn sizes_that_wait(cx: &Cx, before: &ClusterSpec, after: &ClusterSpec) -> Result<Vec<NodeName>, OpError> {
    let machines = cx.wait(cx.engine().machines(&after.name))?;
    let is_on = |name: &&NodeName| machines.get(*name).is_some_and(|it| it.state().power == Power::On);
    Ok(resized(before, after).filter(is_on).cloned().collect())
}

fn resized<'a>(before: &'a ClusterSpec, after: &'a ClusterSpec) -> impl Iterator<Item = &'a NodeName> {
    let size = |node: &NodeSpec| (node.cpus, node.memory, node.disk);
    let pairs = before.nodes.iter().zip(&after.nodes);
    pairs.filter(move |(before, after)| size(before) != size(after)).map(|(_, node)| &node.name)
}

fn dry_run(cx: &Cx, spec: &ClusterSpec, wait: &Wait) -> Result<(), OpError> {
    let plan = if let Some(known) = cx.store.load(&cx.name)? {
        let cluster = Cluster { spec: spec.clone(), ..known };
        cx.wait(cx.engine().plan_start(&cluster, &wait.conditions))?
    } else {
        let cluster = new_cluster(cx, spec.clone(), String::new())?;
        plan::start(&cluster, &Observed::nothing(), &wait.conditions)
    };
    let steps: Vec<_> =
        plan.steps.iter().map(|step| json!({"name": step.name, "title": step.title})).collect();
    cx.screen.result(&json!({"cluster": cx.name.as_ref(), "steps": steps}), || {
        let titles = plan.steps.iter().map(|step| format!("  {}", step.title));
        let heading = format!("to start {} (Kubernetes {}):", cx.name, spec.kubernetes_version);
        std::iter::once(heading).chain(titles).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

/// `pending` are nodes whose new size is saved and takes effect when they boot.
fn tell(screen: &Screen, cluster: &Cluster, changed: Changed, pending: &[NodeName]) {
    let (name, version) = (cluster.name(), &cluster.spec.kubernetes_version);
    let node = cluster.primary().map(|node| node.address.to_string()).unwrap_or_default();
    let mut value = json!({
        "cluster": name.as_ref(),
        "changed": changed.is_yes() || !pending.is_empty(),
        "kubernetesVersion": version.to_string(),
        "server": cluster.api_url(),
        "ip": node,
    });
    if !pending.is_empty() {
        value["sizesPending"] = json!(pending.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
    }
    screen.result(&value, || {
        let runs = format!("{name} runs already (Kubernetes {version}, {node})");
        let up = format!("{name} is up: Kubernetes {version} at {}", cluster.api_url());
        match (changed, pending_sizes(name, pending)) {
            (Changed::No, None) => format!("{runs}: nothing to do"),
            (Changed::No, Some(pending)) => format!("{runs}\n{pending}"),
            (Changed::Yes, None) => format!("{up}\n\n{}", next_commands(name)),
            (Changed::Yes, Some(pending)) => format!("{up}\n{pending}\n\n{}", next_commands(name)),
        }
    });
}

fn pending_sizes(name: &ClusterName, nodes: &[NodeName]) -> Option<String> {
    let names: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
    let (names, flag) = (names.join(", "), profile_flag(name));
    (!nodes.is_empty()).then(|| {
        format!(
            "the new size of {names} is saved and takes effect when it boots: `flotilla stop{flag}`, then \
             `flotilla start{flag}`"
        )
    })
}

/// What a person may want to type next.
fn next_commands(name: &ClusterName) -> String {
    let flag = profile_flag(name);
    let commands = [
        ("kubectl get nodes".to_owned(), "your kubectl uses it now"),
        (format!("flotilla kubectl{flag} -- get pods -A"), "or the cluster's own"),
        (format!("flotilla ssh{flag}"), "a shell in the node"),
        (format!("flotilla stop{flag}"), "power it off; it keeps all it holds"),
        (format!("flotilla delete{flag}"), "remove it"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    commands.map(|(command, what)| format!("  {command:width$}    {what}")).join("\n")
}
