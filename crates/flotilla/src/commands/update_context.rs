//! `flotilla update-context`

use flotilla_core::Changed;
use flotilla_ops::OpError;
use flotilla_ops::update_context::{self, Request, Updated};

use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let request = Request { cluster: cx.name.clone() };
    let updated = cx.wait(update_context::run(&cx.context(), &request))?;
    cx.screen.result(&updated, || {
        let Updated { cluster, changed, kubeconfig } = &updated;
        let path = kubeconfig;
        match changed {
            Changed::Yes => format!("{cluster} is the current context of {path}"),
            Changed::No => format!("{cluster} is already the current context of {path}"),
        }
    });
    Ok(())
}
