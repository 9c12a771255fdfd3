//! What `status` says of etcd.

use flotilla_engine::quorum::Quorum;
use serde::Serialize;

/// How many members are healthy, and how many are to spare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EtcdStatus {
    members: usize,
    up: usize,
    /// Whether so many are up that they can agree.
    quorum: bool,
    /// How many more may fail.
    margin: usize,
    /// Each with the member that has raised it. With one of them no member takes writes.
    alarms: Vec<String>,
}

impl EtcdStatus {
    pub(super) fn of(quorum: Quorum, alarms: Vec<String>) -> Self {
        let Quorum { total: members, up } = quorum;
        Self { members, up, quorum: quorum.holds(), margin: quorum.margin(), alarms }
    }

    /// 2 for Kubernetes that is not well, as nodes have it.
    pub(super) fn exit_bits(&self) -> u8 {
        u8::from(!self.quorum || !self.alarms.is_empty()) << 1
    }

    pub(super) fn text(&self) -> String {
        let Self { members, up, quorum, margin, alarms } = self;
        let margin = match (quorum, margin) {
            (false, _) => "none: etcd has lost quorum, and the API does not answer".to_owned(),
            (true, 0) => "none may fail".to_owned(),
            (true, margin) => format!("{margin} may fail"),
        };
        let lines = [format!("etcd\nmembers: {up} of {members} up\nmargin: {margin}")];
        let lines: Vec<_> = lines.iter().chain(alarms).map(String::as_str).collect();
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_many_may_fail() {
        let told = [(3, 3), (3, 2), (3, 1), (2, 2)]
            .map(|(total, up)| EtcdStatus::of(Quorum { total, up }, Vec::new()).text());
        insta::assert_snapshot!(told.concat(), @"
        etcd
        members: 3 of 3 up
        margin: 1 may fail
        etcd
        members: 2 of 3 up
        margin: none may fail
        etcd
        members: 1 of 3 up
        margin: none: etcd has lost quorum, and the API does not answer
        etcd
        members: 2 of 2 up
        margin: none may fail
        ");
    }

    #[test]
    fn an_alarm_or_a_lost_quorum_is_told_and_counts() {
        let alarm = vec!["m02: alarm NOSPACE: its database is full".to_owned()];
        let status = EtcdStatus::of(Quorum { total: 3, up: 2 }, alarm);
        assert!(status.text().ends_with("margin: none may fail\nm02: alarm NOSPACE: its database is full\n"));
        let bits = |status: EtcdStatus| status.exit_bits();
        assert_eq!(bits(status), 2);
        assert_eq!(bits(EtcdStatus::of(Quorum { total: 3, up: 1 }, Vec::new())), 2);
        assert_eq!(bits(EtcdStatus::of(Quorum { total: 3, up: 2 }, Vec::new())), 0);
    }
}
