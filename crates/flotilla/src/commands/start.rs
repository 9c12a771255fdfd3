//! `flotilla start`

pub(crate) mod request;
mod screen;
pub(crate) mod wait;

use flotilla_core::Event;
use flotilla_engine::converge::Wait;
use flotilla_ops::OpError;
use flotilla_ops::bundles::SHORT;
use flotilla_ops::start::{self, Prepared, Request, Wanted};

use crate::args::StartArgs;
use crate::cluster::Cx;
use crate::commands::{failure, file};
use crate::profile::Profile;
use crate::screen::Screen;
use crate::wiring::Wiring;

use request::Parsed;
use screen::{tell, tell_steps};

pub(crate) fn run(
    profile: &Profile,
    args: &StartArgs,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<(), OpError> {
    let (cx, wanted, conditions) = if let Some(path) = &args.file {
        let (cx, file) = file::open(profile.given(), path, screen, wiring)?;
        (cx, Wanted::File(file), wait::conditions(&args.wait)?)
    } else {
        let cx = Cx::new(profile.name(), screen, wiring)?;
        let parsed = Parsed::parse(args, &cx.name, &wiring.bundles.default_version())?;
        if let Some(text) = parsed.raised() {
            cx.screen.reporter().report(Event::Note { text });
        }
        (cx, Wanted::Typed(Box::new(parsed.typed)), parsed.wait)
    };
    let request = Request {
        cluster: cx.name.clone(),
        wanted,
        wait: Wait { conditions, limit: args.waiting.wait_timeout },
        force: args.force,
        busy: args.lock.busy(),
    };
    if args.dry_run {
        tell_steps(screen, &cx.wait(start::plan(&cx.context(), &request))?);
        return Ok(());
    }
    if args.accepted.keep_context {
        let text = format!("--keep-context is ignored: {} becomes the current context", cx.name);
        cx.screen.warning(&text, "select another one with `kubectl config use-context NAME`");
    }
    let context = cx.context();
    let prepared = cx.wait(start::prepare(&context, &request));
    let yes = args.yes || !args.accepted.interactive;
    let started = prepared.and_then(|prepared| run_prepared(&cx, prepared, yes));
    failure::kept(&cx, args.accepted.failure, started)
}

/// Starts a cluster. Asks before a long build, unless `yes` was given.
pub(crate) fn run_prepared(cx: &Cx, prepared: Prepared<'_>, yes: bool) -> Result<(), OpError> {
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
    let agreed = yes || time < SHORT || cx.screen.ask("Build it now?").unwrap_or(true);
    if !agreed {
        cx.screen.note(
            "nothing was changed",
            "import a bundle from another machine with: flotilla bundle import FILE",
        );
    }
    Ok(agreed)
}
