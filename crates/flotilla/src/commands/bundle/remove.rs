//! `flotilla bundle remove`

use flotilla_core::short_digest;
use flotilla_ops::bundles::remove::{self, Request};
use flotilla_ops::{Context, OpError};

use crate::args::WhichArgs;
use crate::cluster::runtime;
use crate::screen::Screen;

pub(crate) fn run(cx: &Context<'_>, args: WhichArgs, screen: &Screen) -> Result<(), OpError> {
    let removed = runtime()?.block_on(remove::run(cx, &Request { which: args.which }))?;
    screen.result(&removed, || format!("removed bundle {}", short_digest(&removed.digest)));
    Ok(())
}
