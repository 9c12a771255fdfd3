//! `flotilla kubectl`

use flotilla_engine::EngineError;
use flotilla_linux::host::Command;
use flotilla_ops::OpError;

use crate::args::KubectlArgs;
use crate::cluster::Cx;

/// The bundle's kubectl takes our place: its streams, its signals and its exit status are ours.
pub(crate) fn run(cx: &Cx, args: KubectlArgs) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    let bundle = cx.settings().home.join("bundles").join(&cluster.allocations.bundle);
    let program = bundle.join("bin/kubectl");
    let kubeconfig = cx.kubeconfig().own_path(&cx.name);
    // Else kubectl would say that there is no route to the host, which is true and no help.
    cx.require_control_plane(&cluster)?;
    let error = Command::new(&program).args(args.arguments).env("KUBECONFIG", kubeconfig).replace_us();
    Err(EngineError::Io { action: "run", path: program, source: std::io::Error::other(error) }.into())
}
