//! What a test tells its runner, which is another process, in lines among what it prints: clusters that are to be deleted
//! if it is killed, and how long their starts took.

use std::path::Path;
use std::time::Duration;

const CLUSTER: &str = "==== cluster ";
const START: &str = "==== start ";

#[expect(clippy::print_stdout, reason = "the runner reads it")]
pub(super) fn cluster(name: &str, home: &Path, kubeconfig: &Path) {
    println!("{CLUSTER}{name} {} {}", home.display(), kubeconfig.display());
}

/// The name, the state directory and the kubeconfig of a cluster that this line announces.
pub(crate) fn announced_cluster(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.strip_prefix(CLUSTER)?.split(' ');
    Some((words.next()?, words.next()?, words.next()?))
}

#[expect(clippy::print_stdout, reason = "the runner reads it")]
pub(super) fn start(name: &str, args: &[&str], took: Duration) {
    println!("{START}{:.1} {name} {}", took.as_secs_f64(), args.join(" "));
}

/// How many seconds a start took that this line announces, the name of the cluster and the arguments.
pub(crate) fn announced_start(line: &str) -> Option<(f64, &str)> {
    let (seconds, what) = line.strip_prefix(START)?.split_once(' ')?;
    Some((seconds.parse().ok()?, what.trim_end()))
}
