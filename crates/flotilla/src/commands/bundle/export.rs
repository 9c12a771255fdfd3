//! `flotilla bundle export`

use flotilla_ops::bundles::export::{self, Request};
use flotilla_ops::{Context, OpError};

use super::to_json;
use crate::args::ExportArgs;
use crate::screen::Screen;

pub(crate) fn run(cx: &Context<'_>, args: ExportArgs, screen: &Screen) -> Result<(), OpError> {
    let request = Request { which: args.which, file: args.file };
    let bundle = export::run(cx, &request)?;
    let digest = &bundle.digest;
    screen.result(&to_json(&bundle), || {
        let file = request.file.display();
        format!("exported bundle sha256:{digest} to {file}\nimport it with: flotilla bundle import {file} --digest {digest}")
    });
    Ok(())
}
