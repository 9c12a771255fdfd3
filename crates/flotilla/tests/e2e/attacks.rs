//! What root in a node and a privileged pod can do to the host: each attack that we know of, tried for real.
//!
//! An attack that works leaves the host as it was: it opens for writing and writes nothing, or asks for a permission in a
//! way that cannot be granted. docs/security.md has the table of all attacks, which is made from the one here.

mod documented;
mod field;
mod files;
mod kernel;
mod limits;
mod network;
mod output;
mod shared;
mod watched;

use std::fs;

use crate::cluster::works_at_once;
use crate::faults::KUBECONFIG;
use crate::host_state::HostState;
use crate::lab::{self, Cluster};

use field::Field;

/// How a node is kept apart from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    /// Namespaces, capabilities, control groups.
    None,
    /// A user namespace besides.
    User,
}

/// What is to come of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Stopped,
    /// Not stopped, which docs/security.md says.
    Works,
}

use Outcome::{Stopped, Works};

/// What came of an attack, with what it reached, or what was in its way.
#[derive(Debug)]
enum Tried {
    Works(String),
    Stopped(String),
    /// This host has nothing to attack: a driver that the kernel lacks, say.
    Impossible(String),
}

struct Attack {
    name: &'static str,
    /// With [`Isolation::None`].
    none: Outcome,
    /// With a user namespace for each node.
    user: Outcome,
    /// What stops it, or why nothing does, for docs/security.md.
    why: &'static str,
    run: fn(&Field) -> Tried,
}

impl Attack {
    fn expected(&self, isolation: Isolation) -> Outcome {
        match isolation {
            Isolation::None => self.none,
            Isolation::User => self.user,
        }
    }
}

/// In the order in which they are tried: those on files come last, since the node does not outlive them.
const TOPICS: &[(&str, &[Attack])] = &[
    ("Kernel", kernel::ATTACKS),
    ("Devices", kernel::DEVICES),
    ("Limits", limits::ATTACKS),
    ("Shared content", shared::ATTACKS),
    ("Network", network::ATTACKS),
    ("What commands print and copy", output::ATTACKS),
    ("Files of a node that the host reads", files::ATTACKS),
];

pub(crate) fn a_node_does_to_the_host_what_is_documented_and_no_more() {
    documented::check();
    try_all(Isolation::None, "ta-none");
}

pub(crate) fn a_node_in_a_user_namespace_does_to_the_host_what_is_documented_and_no_more() {
    try_all(Isolation::User, "ta-user");
}

#[expect(clippy::print_stdout, reason = "the harness shows it with a failure")]
fn try_all(isolation: Isolation, name: &str) {
    let cluster = Cluster::new(lab::real_home(), name);
    fs::write(cluster.kubeconfig(), KUBECONFIG).unwrap();
    let before = HostState::take(&cluster);
    let field = Field::start(&cluster, isolation);
    // The first start of a bundle adds the image of its snapshots.
    let bundle = shared::Bundle::look();
    let mut wrong = Vec::new();
    for (topic, attacks) in TOPICS {
        println!("---- {topic}");
        for attack in *attacks {
            let begun = std::time::Instant::now();
            let tried = (attack.run)(&field);
            println!("{}: {tried:?} ({:.1} s)", attack.name, begun.elapsed().as_secs_f64());
            let came = match tried {
                Tried::Works(_) => Works,
                Tried::Stopped(_) => Stopped,
                Tried::Impossible(_) => continue,
            };
            let expected = attack.expected(isolation);
            if came != expected {
                wrong.push(format!("{}: expected {expected:?}, tried: {tried:?}", attack.name));
            }
        }
    }
    works_at_once(&cluster);
    cluster.succeed(&["delete"]);
    before.assert_unchanged(&cluster, "all attacks");
    bundle.assert_unchanged();
    assert!(
        wrong.is_empty(),
        "{} attacks ended otherwise than docs/security.md says: {wrong:#?}",
        wrong.len()
    );
}
