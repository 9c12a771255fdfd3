//! `flotilla export`

use flotilla_ops::OpError;
use flotilla_ops::export::{self, Request};

use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let exported = cx.wait(export::run(&cx.context(), &Request { cluster: cx.name.clone() }))?;
    if exported.is_headless {
        let text = "no control plane is to run, but other nodes are: the file lets the control planes run";
        cx.screen.note(text, "`flotilla start` brings them back");
    }
    cx.screen.line(&exported.file);
    Ok(())
}
