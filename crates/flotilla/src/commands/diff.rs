//! `flotilla diff`

use flotilla_ops::OpError;

use crate::args::DiffArgs;
use crate::commands::file::{self, Plan};
use crate::commands::start;
use crate::screen::Screen;
use crate::wiring::Wiring;

/// The exit status that says that there are differences, as diff and kubectl have it.
const DIFFERS: u8 = 1;

pub(crate) fn run(
    profile: Option<&str>,
    args: &DiffArgs,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<u8, OpError> {
    let (cx, file) = file::open(profile, &args.file.path, screen, wiring)?;
    cx.require_root()?;
    let known = cx.store.load(&cx.name)?;
    let plan = Plan::new(&cx, &file, known.as_ref())?;
    match &known {
        Some(cluster) => plan.check(&cx, cluster)?,
        None => start::check_new(&cx, &plan.wanted, Some(&file))?,
    }
    if screen.is_json() {
        screen.json(&plan.to_json());
    } else if !plan.changes.is_empty() {
        screen.line(&plan.lines());
    }
    Ok(if plan.changes.is_empty() { 0 } else { DIFFERS })
}
