//! The control planes that have data and keys, and which of them knows most.

use std::time::Duration;

use flotilla_core::Cluster;
use flotilla_core::bootstrap::FIRST_ANSWER;
use flotilla_core::event::{Outcome, Step};
use flotilla_engine::EngineError;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use crate::Context;
use crate::etcd::ControlPlane;
use crate::etcd::status::Members;

const POLL: Duration = Duration::from_millis(200);

/// At least one.
pub(super) struct Survivors {
    all: Vec<Survivor>,
    /// What the members know of each other; none if etcd does not answer in any of them.
    pub(super) view: Option<Members>,
}

struct Survivor {
    control_plane: ControlPlane,
    answered: bool,
    known: Known,
}

/// How much a member knows. Members of one etcd have the same writes in the same order, so that the last one tells which of
/// them knows most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    revision: Option<u64>,
    /// What the members agreed on beside writes, as far as one answers.
    agreed: Option<u64>,
}

impl Survivors {
    /// Asks each of them once.
    pub(super) async fn ask(cx: &Context<'_>, cluster: &Cluster, joined: Vec<ControlPlane>) -> Self {
        let all = joined.into_iter().map(|control_plane| Survivor {
            control_plane,
            answered: false,
            known: Known::default(),
        });
        let mut survivors = Self { all: all.collect(), view: None };
        survivors.look(cx, cluster).await;
        survivors
    }

    pub(super) fn have_quorum(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.quorum().holds())
    }

    /// Asks them until a majority or all of them have answered, for as long as a first start may take: on a slow host
    /// members that are intact are silent for minutes.
    pub(super) async fn wait(&mut self, cx: &Context<'_>, cluster: &Cluster) -> Result<(), EngineError> {
        let step = Step::start(cx.reporter, "members", "waiting for the members of etcd", None);
        let begun = Instant::now();
        loop {
            self.look(cx, cluster).await;
            if cx.cancel.is_cancelled() {
                return Err(EngineError::Interrupted);
            }
            let all_answered = self.all.iter().all(|one| one.answered);
            if self.have_quorum() || all_answered || begun.elapsed() >= FIRST_ANSWER {
                break;
            }
            sleep(POLL).await;
        }
        step.done(Outcome::Done);
        Ok(())
    }

    async fn look(&mut self, cx: &Context<'_>, cluster: &Cluster) {
        let asked = self.all.iter().map(|one| {
            let machine = one.control_plane.machine.as_ref();
            cx.bootstrapper.member_status(cluster, machine)
        });
        let answers = join_all(asked).await;
        for (one, answer) in self.all.iter_mut().zip(&answers) {
            let node = &one.control_plane.node;
            let own = answer.iter().flatten().find(|status| status.member.is_of(node));
            if let Some(own) = own.filter(|own| own.member.answers) {
                one.answered = true;
                one.known = Known { revision: own.revision, agreed: own.agreed };
            }
        }
        self.view = Members::best(answers.into_iter().flatten().collect()).or(self.view.take());
    }

    /// Stops those whose etcd does not answer, and reads their databases from the disk.
    pub(super) async fn examine_silent(&mut self, cx: &Context<'_>) {
        for one in self.all.iter_mut().filter(|one| !one.answered) {
            let name = &one.control_plane.node.spec.name;
            let text = match cx.bootstrapper.stop_and_examine(one.control_plane.machine.as_ref()).await {
                Ok(found) => {
                    one.known.revision = Some(found.revision);
                    format!(
                        "etcd does not answer in node {name}; its data on disk has revision {}",
                        found.revision
                    )
                }
                Err(error) => {
                    format!("etcd does not answer in node {name}, and its data is not readable: {error}")
                }
            };
            cx.warn(text);
        }
    }

    /// The one that knows most; the first of several that know the same.
    pub(super) fn best(&self) -> &ControlPlane {
        let known = self.all.iter().map(|one| one.known);
        &self.all[best_of(known)].control_plane
    }

    /// The one that knows most, if it knows more than a snapshot of this revision.
    pub(super) fn newer_than(&self, revision: u64) -> Option<(&ControlPlane, u64)> {
        let best = &self.all[best_of(self.all.iter().map(|one| one.known))];
        let known = best.known.revision.filter(|known| *known > revision)?;
        Some((&best.control_plane, known))
    }
}

fn best_of(known: impl DoubleEndedIterator<Item = Known> + ExactSizeIterator) -> usize {
    known.enumerate().rev().max_by_key(|(_, known)| *known).map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_with_the_last_write_is_taken_and_not_the_first_of_the_list() {
        let best = |known: &[(Option<u64>, Option<u64>)]| {
            best_of(known.iter().map(|(revision, agreed)| Known { revision: *revision, agreed: *agreed }))
        };
        assert_eq!(best(&[(Some(5), None), (Some(9), None), (Some(7), None)]), 1);
        assert_eq!(best(&[(Some(5), Some(90)), (Some(9), None)]), 1, "one that is silent may know more");
        assert_eq!(best(&[(Some(9), Some(20)), (Some(9), Some(30))]), 1);
        assert_eq!(best(&[(Some(9), None), (Some(9), None)]), 0);
        assert_eq!(best(&[(None, None), (Some(1), None)]), 1);
        assert_eq!(best(&[(None, None)]), 0);
    }
}
