//! `flotilla stop`

use flotilla_core::Changed;
use flotilla_ops::stop::{self, Request, Stopped};
use flotilla_ops::{OpError, several};
use flotilla_spec::ClusterName;
use serde_json::json;

use crate::args::StopArgs;
use crate::cluster::Cx;
use crate::screen::Screen;

pub(crate) fn run(cx: &Cx, args: &StopArgs) -> Result<(), OpError> {
    let context = cx.context();
    let request = |cluster: ClusterName| Request {
        cluster,
        keep_context: args.keep_context_active,
        busy: args.lock.busy(),
    };
    let stop = async |cluster| {
        tell(cx.screen, &stop::run(&context, &request(cluster)).await?);
        Ok(())
    };
    if !args.all {
        cx.handle_signals()?;
        return cx.wait(stop(cx.name.clone()));
    }
    let names = cx.wait(stop::all(&context))?;
    if names.is_empty() {
        cx.screen.result(&json!({"changed": false}), || "no cluster to stop".into());
    }
    cx.handle_signals()?;
    cx.wait(several::each(&context, names, "stopped", stop))
}

fn tell(screen: &Screen, stopped: &Stopped) {
    let name = &stopped.cluster;
    screen.result(stopped, || match stopped.changed {
        Changed::Yes => {
            let flag = screen.profile_flag(name);
            format!("stopped cluster {name}; `flotilla start{flag}` starts it again with its data")
        }
        Changed::No => format!("cluster {name} is already stopped"),
    });
}
