//! What `status` says of etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use flotilla_engine::Cluster;
use flotilla_engine::port::Machine;
use flotilla_engine::quorum::Quorum;
use flotilla_spec::NodeName;
use serde::Serialize;

use crate::cluster::Cx;

/// How many members are up, and how many are to spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EtcdStatus {
    members: usize,
    up: usize,
    /// Whether so many are up that they can agree.
    quorum: bool,
    /// How many more may fail.
    margin: usize,
}

impl EtcdStatus {
    fn of(quorum: Quorum) -> Self {
        Self { members: quorum.total, up: quorum.up, quorum: quorum.holds(), margin: quorum.margin() }
    }

    pub(super) fn text(self) -> String {
        let Self { members, up, quorum, margin } = self;
        let margin = match (quorum, margin) {
            (false, _) => "none: etcd has lost its majority, and the API does not answer".to_owned(),
            (true, 0) => "none may fail".to_owned(),
            (true, margin) => format!("{margin} may fail"),
        };
        format!("etcd\nmembers: {up} of {members} up\nmargin: {margin}\n")
    }
}

/// None where there is nobody to ask.
pub(super) fn status_of(
    cx: &Cx,
    cluster: &Cluster,
    machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
) -> Option<EtcdStatus> {
    let members = cx.wait(cx.engine().members(cluster, machines))?;
    Some(EtcdStatus::of(Quorum::of(&members)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_many_may_fail() {
        let told =
            [(3, 3), (3, 2), (3, 1), (2, 2)].map(|(total, up)| EtcdStatus::of(Quorum { total, up }).text());
        insta::assert_snapshot!(told.concat(), @"
        etcd
        members: 3 of 3 up
        margin: 1 may fail
        etcd
        members: 2 of 3 up
        margin: none may fail
        etcd
        members: 1 of 3 up
        margin: none: etcd has lost its majority, and the API does not answer
        etcd
        members: 2 of 2 up
        margin: none may fail
        ");
    }
}
