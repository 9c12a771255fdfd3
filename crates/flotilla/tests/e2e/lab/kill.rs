//! Commands that are killed in the middle.

use std::time::Duration;

use super::{Cluster, Running};

/// When a command is killed. `NAME` in a step is the cluster's name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    Beginning(&'static str),
    /// So many milliseconds after the beginning of a step.
    Within(&'static str, u64),
    End(&'static str),
}

/// Runs a command and kills it at a moment. False if it never came so far, or ended by itself while time passed. Between the
/// last events and the end of a command there is no time to speak of: then it may have ended, too.
#[expect(clippy::print_stdout, reason = "the harness shows it with a failure")]
pub(crate) fn kill_at(cluster: &Cluster, args: &[&str], at: At) -> bool {
    let mut running = Running::start(&mut cluster.command(args));
    let (At::Beginning(step) | At::Within(step, _) | At::End(step)) = at;
    let step = step.replace("NAME", &cluster.name);
    let seen = match at {
        At::Beginning(_) | At::Within(..) => running.wait_for_step(&step),
        At::End(_) => running.wait_for_end_of_step(&step),
    };
    if let At::Within(_, milliseconds) = at {
        pass(Duration::from_millis(milliseconds));
        let (killed, last) = running.kill_and_read();
        if !killed {
            println!("{args:?} ended by itself: {last}");
        }
        return killed && seen;
    }
    running.kill();
    seen
}

#[expect(clippy::disallowed_methods, reason = "a moment in the middle of a step has no event")]
fn pass(time: Duration) {
    std::thread::sleep(time);
}
