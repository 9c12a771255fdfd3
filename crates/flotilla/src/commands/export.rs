//! `flotilla export`

use crate::cluster::Cx;
use crate::failure::Failure;

/// As it was asked for: what flotilla chose stays open, so that the file makes the same cluster on any host.
pub(crate) fn run(cx: &Cx) -> Result<(), Failure> {
    cx.screen.line(cx.cluster()?.spec.exported().to_yaml().trim_end());
    Ok(())
}
