//! minikube's `--delete-on-failure`.

use flotilla_ops::OpError;

use crate::args::DeleteOnFailureArgs;
use crate::cluster::Cx;

/// Says that a failed command has deleted nothing, if that was asked for: data are only deleted by commands that say so.
pub(super) fn kept<T>(cx: &Cx, args: DeleteOnFailureArgs, done: Result<T, OpError>) -> Result<T, OpError> {
    if done.is_err() && args.delete_on_failure {
        cx.screen.note(
            "--delete-on-failure is ignored: nothing was deleted",
            "run the command again to resume, or delete the cluster with `flotilla delete`",
        );
    }
    done
}
