//! `flotilla apply`

use flotilla_core::{Changed, Drain};
use flotilla_ops::OpError;
use flotilla_ops::apply::{self, Prepared, Request};
use flotilla_ops::change::Plan;
use serde_json::json;

use crate::args::ApplyArgs;
use crate::cluster::Cx;
use crate::commands::file::{self, agreed, tell_outages};
use crate::commands::start;
use crate::screen::Screen;
use crate::wiring::Wiring;

pub(crate) fn run(
    profile: Option<&str>,
    args: &ApplyArgs,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<(), OpError> {
    let (cx, file) = file::open(profile, &args.file.path, screen, wiring)?;
    let context = cx.context();
    let drain = Drain { limit: args.draining.drain_timeout, force: args.draining.force };
    let request = Request { file, drain, wait_limit: args.waiting.wait_timeout, busy: args.lock.busy() };
    if args.dry_run {
        let plan = cx.wait(apply::plan(&context, &request))?;
        tell_outages(&cx, &plan);
        tell_plan(&cx, &request, &plan);
        return Ok(());
    }
    let prepared = cx.wait(apply::prepare(&context, &request))?;
    if !prepared.plan().changes.is_empty() && !agreed(&cx, args.yes, prepared.plan())? {
        return Ok(());
    }
    match prepared {
        Prepared::New(new) => start::run_prepared(&cx, cx.wait(new.start())?, args.yes),
        Prepared::Change(prepared) => {
            cx.handle_signals()?;
            let plan = prepared.plan.clone();
            let changed = cx.wait(prepared.run())?;
            tell(&cx, &request, &plan, changed);
            Ok(())
        }
    }
}

fn tell_plan(cx: &Cx, request: &Request, plan: &Plan) {
    cx.screen.result(&file::to_json(plan), || match plan.changes.as_slice() {
        [] => matches(cx, request),
        _ => file::lines(plan),
    });
}

fn tell(cx: &Cx, request: &Request, plan: &Plan, changed: Changed) {
    let mut value = file::to_json(plan);
    value["changed"] = json!(changed.is_yes());
    cx.screen.result(&value, || match changed {
        Changed::Yes => format!("applied {} to cluster {}", request.file.name, cx.name),
        Changed::No => matches(cx, request),
    });
}

fn matches(cx: &Cx, request: &Request) -> String {
    format!("cluster {} matches {}: nothing to do", cx.name, request.file.name)
}
