//! `flotilla kubectl`

use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::kubectl::{self, Kubectl, Request};

use crate::args::KubectlArgs;
use crate::cluster::Cx;
use crate::wiring::Replacement;

/// The bundle's kubectl takes our place: its streams, its signals and its exit status are ours.
pub(crate) fn run(cx: &Cx, args: KubectlArgs) -> Result<(), OpError> {
    let request = Request { cluster: cx.name.clone() };
    let Kubectl { program, kubeconfig } = cx.wait(kubectl::run(&cx.context(), &request))?;
    // Beside the kubeconfig, and gone with the cluster: with sudo, kubectl would make root's files in the user's home, and
    // what it remembers of a deleted cluster would be taken for that of the next one at the same address.
    let cache = kubeconfig.with_file_name("kubectl-cache");
    let env = vec![("KUBECONFIG", kubeconfig), ("KUBECACHEDIR", cache)];
    let replaced = cx.replace_us(Replacement { program: program.clone(), args: args.arguments, env });
    replaced.map_err(|source| EngineError::Io { action: "run", path: program, source }.into())
}
