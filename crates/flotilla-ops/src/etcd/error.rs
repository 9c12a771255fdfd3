//! What can keep etcd from being saved, restored or recovered.

use std::path::PathBuf;

use flotilla_core::SnapshotError;
use flotilla_core::explain::{Code, Explain, profile_flag};
use flotilla_engine::quorum::Quorum;
use flotilla_spec::ClusterName;

#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    #[error("{} already exists", file.display())]
    FileExists { file: PathBuf },
    #[error("etcd has quorum ({} of {} members are up): nothing to recover", quorum.up, quorum.total)]
    HasQuorum { cluster: ClusterName, quorum: Quorum },
    #[error("no control plane of cluster {cluster} has its data and keys")]
    NoSurvivor { cluster: ClusterName },
    #[error("{} of {total} control planes of cluster {cluster} have their data: {}", with_data.len(), with_data.join(", "))]
    HasData { cluster: ClusterName, with_data: Vec<String>, total: usize },
    #[error("cannot restore {}", file.display())]
    BadSnapshot { file: PathBuf, source: SnapshotError },
    #[error("{} has no checksum, so damage cannot be detected", file.display())]
    NoChecksum { file: PathBuf },
    #[error("{} is a snapshot of another cluster, not of {cluster}", file.display())]
    Foreign { cluster: ClusterName, file: PathBuf },
    #[error("{} is not proven to be a snapshot of cluster {cluster}", file.display())]
    UnknownOrigin { cluster: ClusterName, file: PathBuf },
}

impl Explain for EtcdError {
    fn code(&self) -> Code {
        let (name, exit_status) = match self {
            Self::FileExists { .. } => ("HOST_FILE_EXISTS", 31),
            Self::HasQuorum { .. } => ("GUEST_HAS_QUORUM", 81),
            Self::NoSurvivor { .. } => ("GUEST_NO_SURVIVOR", 85),
            Self::HasData { .. } => ("GUEST_HAS_DATA", 81),
            Self::BadSnapshot { source: SnapshotError::Io(_), .. } => ("HOST_IO", 30),
            Self::BadSnapshot { .. } | Self::NoChecksum { .. } => ("HOST_BAD_SNAPSHOT", 38),
            Self::Foreign { .. } | Self::UnknownOrigin { .. } => ("GUEST_FOREIGN_SNAPSHOT", 81),
        };
        Code { name, exit_status }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::FileExists { .. } => vec!["use --force to overwrite it".into()],
            Self::HasQuorum { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![
                    format!("start nodes that are down with `flotilla start{flag}`"),
                    format!("restore a snapshot with `flotilla etcd snapshot restore FILE{flag}`"),
                ]
            }
            Self::NoSurvivor { cluster } => {
                let flag = profile_flag(cluster);
                vec![
                    format!(
                        "without its keys it cannot be recovered: run `flotilla delete{flag}`, then `start`"
                    ),
                    "that deletes the disks of all nodes, with volumes and images: copy what you need first"
                        .into(),
                ]
            }
            Self::HasData { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![
                    format!("start them with `flotilla start{flag}`: with quorum etcd needs no recovery"),
                    format!("see why etcd does not start on a node with `flotilla logs{flag} --node NAME`"),
                    "--force recovers from one of them and moves the data of the others aside".into(),
                ]
            }
            Self::BadSnapshot { source: SnapshotError::Io(_), .. } => Vec::new(),
            Self::BadSnapshot { .. } => {
                vec!["`flotilla etcd snapshot save FILE` writes a snapshot (nothing was changed)".into()]
            }
            Self::NoChecksum { .. } => {
                vec![
                    "use --force to restore it as a copy of a member's database (nothing was changed)".into(),
                ]
            }
            Self::Foreign { .. } => {
                vec![
                    "use --force to restore it; objects and nodes are then those of the other cluster".into(),
                ]
            }
            Self::UnknownOrigin { .. } => vec!["use --force to restore it anyway".into()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_learns_what_helps_instead() {
        let quorum = Quorum { total: 1, up: 1 };
        let cluster = || "demo".parse().unwrap();
        let refused = EtcdError::HasQuorum { cluster: cluster(), quorum };
        assert_eq!((refused.code().name, refused.code().exit_status), ("GUEST_HAS_QUORUM", 81));
        assert_eq!(refused.to_string(), "etcd has quorum (1 of 1 members are up): nothing to recover");
        assert!(refused.hints()[1].ends_with("`flotilla etcd snapshot restore FILE -p demo`"));
        let with_data = vec!["demo".to_owned(), "m02".to_owned()];
        let refused = EtcdError::HasData { cluster: cluster(), with_data, total: 3 };
        assert_eq!((refused.code().name, refused.code().exit_status), ("GUEST_HAS_DATA", 81));
        assert_eq!(refused.to_string(), "2 of 3 control planes of cluster demo have their data: demo, m02");
        assert!(refused.hints()[0].starts_with("start them with `flotilla start -p demo`"));
        assert!(refused.hints().last().unwrap().starts_with("--force"));
    }
}
