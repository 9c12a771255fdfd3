//! What must be known of a machine also while it is off. Its driver keeps it beside the disk, where the machine can
//! neither see nor change it.

use serde::{Deserialize, Serialize};

/// A machine's part in its cluster.
///
/// ```text
/// None ──init, join──────────────────────────────────▶ Member ──leave, reset──▶ None
///   └──several control planes begin──▶ Founding ──first──▲ │
///                                        └─▶ InitialMember ┘ each of the others
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Membership {
    /// It holds nothing of a cluster that has ever answered.
    #[default]
    None,
    /// It bootstraps a cluster together with other control planes, whose API has not answered yet: no user has stored
    /// anything, so its data may be removed.
    Founding,
    /// The API of the cluster that it founded with others has answered: its data is the cluster's. Its own start was
    /// interrupted before it was finished.
    InitialMember,
    /// Initialised or joined.
    Member,
}

impl Membership {
    /// Whether its data is that of a cluster that has answered, and may be the only copy.
    pub fn holds_data(self) -> bool {
        matches!(self, Self::InitialMember | Self::Member)
    }
}

/// What Flotilla knows of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRecord {
    pub membership: Membership,
}

/// A record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("it is not a record")]
    Damaged(#[source] serde_json::Error),
    #[error("version {version} is not supported, the newest supported one is {VERSION}")]
    Newer { version: u64 },
}

/// The version of the text. A new field or a new value is a new version: an older flotilla would lose it or take it for
/// damage.
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct Head {
    version: u64,
}

/// A record as it is kept, with the number of the machine that it is about.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    version: u64,
    uuid: String,
    #[serde(flatten)]
    record: T,
}

impl MachineRecord {
    /// The text to keep for the machine that has this number.
    pub fn encode(&self, uuid: &str) -> String {
        let kept = Kept { version: VERSION, uuid: uuid.to_owned(), record: self };
        serde_json::to_string(&kept).expect("it is plain data") + "\n"
    }

    /// Reads such a text. None if it is about another machine: the disk beside it was replaced.
    pub fn decode(text: &[u8], uuid: &str) -> Result<Option<Self>, RecordError> {
        let head: Head = serde_json::from_slice(text).map_err(RecordError::Damaged)?;
        if head.version > VERSION {
            return Err(RecordError::Newer { version: head.version });
        }
        let kept: Kept<Self> = serde_json::from_slice(text).map_err(RecordError::Damaged)?;
        Ok((kept.uuid == uuid).then_some(kept.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6f1c";

    #[test]
    fn a_record_is_read_as_it_was_written_and_its_text_stays_the_same() {
        let all = [
            (Membership::None, "none"),
            (Membership::Founding, "founding"),
            (Membership::InitialMember, "initial-member"),
            (Membership::Member, "member"),
        ];
        for (membership, word) in all {
            let record = MachineRecord { membership };
            let text = record.encode(UUID);
            assert_eq!(text, format!("{{\"version\":1,\"uuid\":\"6f1c\",\"membership\":\"{word}\"}}\n"));
            assert_eq!(MachineRecord::decode(text.as_bytes(), UUID).unwrap(), Some(record));
        }
    }

    #[test]
    fn a_record_of_another_machine_says_nothing_of_this_one() {
        let text = MachineRecord { membership: Membership::Member }.encode("of a lost disk");
        assert_eq!(MachineRecord::decode(text.as_bytes(), UUID).unwrap(), None);
    }

    #[test]
    fn what_is_damaged_is_an_error_and_never_a_machine_without_a_cluster() {
        let whole = MachineRecord { membership: Membership::Member }.encode(UUID);
        let cut_off = (0..whole.len() - 2).map(|length| whole[..length].to_owned());
        let wrong =
            [r#"{"version":1,"uuid":"6f1c"}"#, r#"{"version":1,"uuid":"6f1c","membership":"chief"}"#, "[]"];
        for text in cut_off.chain(wrong.map(str::to_owned)) {
            let read = MachineRecord::decode(text.as_bytes(), UUID);
            assert!(matches!(read, Err(RecordError::Damaged(_))), "{text}: {read:?}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let text = br#"{"version":2,"uuid":["another","shape"],"membership":"observer"}"#;
        let error = MachineRecord::decode(text, UUID).unwrap_err();
        assert_eq!(error.to_string(), "version 2 is not supported, the newest supported one is 1");
    }

    #[test]
    fn only_a_cluster_that_has_answered_has_data_to_keep() {
        assert!(!Membership::None.holds_data() && !Membership::Founding.holds_data());
        assert!(Membership::InitialMember.holds_data() && Membership::Member.holds_data());
    }
}
