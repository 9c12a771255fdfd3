//! `flotilla start`

pub(crate) mod request;
pub(crate) mod wait;

use flotilla_core::explain::{DEFAULT_CLUSTER, profile_flag};
use flotilla_core::{Changed, Event};
use flotilla_engine::converge::Wait;
use flotilla_ops::OpError;
use flotilla_ops::bundles::SHORT;
use flotilla_ops::start::{self, Prepared, Request, Started, Steps, Wanted};
use flotilla_spec::{ClusterName, NodeName};
use serde_json::json;

use crate::args::StartArgs;
use crate::cluster::Cx;
use crate::commands::file;
use crate::screen::Screen;
use crate::wiring::Wiring;

use request::Parsed;

pub(crate) fn run(
    profile: Option<&str>,
    args: &StartArgs,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<(), OpError> {
    let (cx, wanted, conditions) = if let Some(path) = &args.file {
        let (cx, file) = file::open(profile, path, screen, wiring)?;
        (cx, Wanted::File(file), wait::conditions(&args.wait)?)
    } else {
        let cx = Cx::new(profile.unwrap_or(DEFAULT_CLUSTER), screen, wiring)?;
        let parsed = Parsed::parse(args, &cx.name, &wiring.bundles.default_version())?;
        if let Some(text) = parsed.raised() {
            cx.screen.reporter().report(Event::Note { text });
        }
        (cx, Wanted::Typed(Box::new(parsed.typed)), parsed.wait)
    };
    let request = Request {
        cluster: cx.name.clone(),
        wanted,
        wait: Wait { conditions, limit: args.wait_timeout },
        force: args.force,
        busy: args.lock.busy(),
    };
    if args.dry_run {
        tell_steps(screen, &cx.wait(start::plan(&cx.context(), &request))?);
        return Ok(());
    }
    start(&cx, &request, args.yes)
}

/// Starts a cluster. Asks before a long build, unless `yes` was given.
pub(crate) fn start(cx: &Cx, request: &Request, yes: bool) -> Result<(), OpError> {
    let context = cx.context();
    let prepared = cx.wait(start::prepare(&context, request))?;
    if !agreed(cx, &prepared, yes)? {
        return Ok(());
    }
    cx.handle_signals()?;
    tell(cx.screen, &cx.wait(prepared.run())?);
    Ok(())
}

/// False if the person does not want to build now. Where nobody can answer, a script has asked for the cluster and waits
/// for it.
fn agreed(cx: &Cx, prepared: &Prepared<'_>, yes: bool) -> Result<bool, OpError> {
    let time = prepared.announce_build()?;
    let agreed = yes || time < SHORT || cx.screen.ask("build it now?").unwrap_or(true);
    if !agreed {
        cx.screen.note(
            "nothing was changed",
            "import a bundle from another machine with: flotilla bundle import FILE",
        );
    }
    Ok(agreed)
}

fn tell_steps(screen: &Screen, plan: &Steps) {
    screen.result(&json!({"cluster": plan.cluster, "steps": plan.steps}), || {
        let titles = plan.steps.iter().map(|step| format!("  {}", step.title));
        let heading = format!("steps to start {} (Kubernetes {}):", plan.cluster, plan.kubernetes_version);
        std::iter::once(heading).chain(titles).collect::<Vec<_>>().join("\n")
    });
}

fn tell(screen: &Screen, started: &Started) {
    let Started { cluster: name, changed, kubernetes_version: version, server, ip, sizes_pending: pending } =
        started;
    let mut value = json!(started);
    value["changed"] = json!(changed.is_yes() || !pending.is_empty());
    if pending.is_empty()
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("sizesPending");
    }
    screen.result(&value, || {
        let runs = format!("{name} runs already (Kubernetes {version}, {ip})");
        let up = format!("{name} is up: Kubernetes {version} at {server}");
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

/// What a user may want to type next.
fn next_commands(name: &ClusterName) -> String {
    let flag = profile_flag(name);
    let commands = [
        ("kubectl get nodes".to_owned(), "your kubectl uses it"),
        (format!("flotilla kubectl{flag} -- get pods -A"), "the cluster's own kubectl"),
        (format!("flotilla ssh{flag}"), "a shell in the node"),
        (format!("flotilla stop{flag}"), "stop it and keep its data"),
        (format!("flotilla delete{flag}"), "remove it"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    commands.map(|(command, what)| format!("  {command:width$}    {what}")).join("\n")
}
