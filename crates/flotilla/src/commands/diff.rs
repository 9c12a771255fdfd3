//! `flotilla diff`

use flotilla_ops::{OpError, apply};

use crate::args::DiffArgs;
use crate::commands::file;
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
    let plan = cx.wait(apply::diff(&cx.context(), &file))?;
    if screen.is_json() {
        screen.json(&file::to_json(&plan));
    } else if !plan.changes.is_empty() {
        screen.line(&file::lines(&plan));
    }
    Ok(if plan.changes.is_empty() { 0 } else { DIFFERS })
}
