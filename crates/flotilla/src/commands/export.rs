//! `flotilla export`

use flotilla_ops::OpError;

use crate::cluster::Cx;

/// As it was asked for: what flotilla chose stays open, so that the file makes the same cluster on any host.
pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let spec = cx.cluster()?.spec;
    if spec.is_headless() {
        let text = "no control plane is to run, but other nodes are: the file lets the control planes run";
        cx.screen.note(text, "`flotilla start` brings them back");
    }
    cx.screen.line(spec.exported().to_yaml().trim_end());
    Ok(())
}
