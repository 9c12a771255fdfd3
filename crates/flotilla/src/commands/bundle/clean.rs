//! `flotilla bundle clean`

use flotilla_core::event::size;
use flotilla_ops::bundles::clean;
use flotilla_ops::{Context, OpError};

use crate::screen::Screen;

pub(crate) fn run(cx: &Context<'_>, screen: &Screen) -> Result<(), OpError> {
    let cleaned = clean::run(cx)?;
    screen.result(&cleaned, || match cleaned.freed_bytes {
        0 => "nothing to remove".to_owned(),
        freed => format!("freed {}", size(freed)),
    });
    Ok(())
}
