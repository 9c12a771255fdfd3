//! `flotilla profile`: selects the cluster of commands that name none, like minikube.

use std::io;

use flotilla_core::Explain;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::ClusterName;

use crate::cluster::Cx;
use crate::profile::{self, Profile};

/// What minikube calls having selected none.
const NONE: &str = "default";

/// Prints the selected cluster, or selects another one. One that does not exist is a warning, as with minikube.
pub(crate) fn run(cx: &Cx, profile: &Profile, name: Option<&str>) -> Result<(), OpError> {
    let Some(name) = name else {
        cx.screen.line(profile.name());
        return Ok(());
    };
    if name == NONE {
        profile::unselect(cx.settings()).map_err(failed)?;
        cx.screen.line("no cluster is selected");
        return Ok(());
    }
    let name: ClusterName = name.parse()?;
    let names = match cx.store.names() {
        Ok(names) => names,
        Err(error) => {
            // The hint has the line to paste.
            if error.code().name == "HOST_PERMISSION" {
                cx.wait(cx.context().require_root())?;
            }
            return Err(error.into());
        }
    };
    if !names.contains(&name) {
        let hint = format!("create it with `flotilla start -p {name}`");
        cx.screen.warning(&format!("cluster {name} does not exist: nothing was selected"), &hint);
        return Ok(());
    }
    profile::select(cx.settings(), &name).map_err(failed)?;
    cx.screen.line(&format!("selected cluster {name}: commands without -p are about it"));
    Ok(())
}

fn failed(source: io::Error) -> OpError {
    EngineError::Io { action: "change", path: "the selected profile".into(), source }.into()
}
