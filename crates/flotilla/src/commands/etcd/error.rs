//! What can keep etcd from being saved, restored or recovered.

use std::path::PathBuf;

use flotilla_core::SnapshotError;
use flotilla_core::explain::{Code, Explain, profile_flag};
use flotilla_engine::quorum::Quorum;
use flotilla_spec::ClusterName;

#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcdError {
    #[error("{} is there already", file.display())]
    FileExists { file: PathBuf },
    #[error("there is no terminal to ask on whether that is to be done")]
    NobodyToAsk,
    #[error("a majority of etcd's members is up, {} of {}: there is nothing to recover", quorum.up, quorum.total)]
    HasMajority { cluster: ClusterName, quorum: Quorum },
    #[error("no control plane of cluster {cluster} is left that has its data and keys")]
    NoSurvivor { cluster: ClusterName },
    #[error("{} of {total} control planes of cluster {cluster} have their data: {}", with_data.len(), with_data.join(", "))]
    HasData { cluster: ClusterName, with_data: Vec<String>, total: usize },
    #[error("cannot restore {}", file.display())]
    BadSnapshot { file: PathBuf, source: SnapshotError },
    #[error("{} has no checksum: whether it is damaged cannot be told", file.display())]
    NoChecksum { file: PathBuf },
    #[error("{} is a snapshot of another cluster than {cluster}", file.display())]
    Foreign { cluster: ClusterName, file: PathBuf },
    #[error("{} does not tell whether it is a snapshot of cluster {cluster}", file.display())]
    UnknownOrigin { cluster: ClusterName, file: PathBuf },
}

impl Explain for EtcdError {
    fn code(&self) -> Code {
        let (name, exit_status) = match self {
            Self::FileExists { .. } => ("HOST_FILE_EXISTS", 31),
            Self::NobodyToAsk => ("MK_USAGE", 14),
            Self::HasMajority { .. } => ("GUEST_HAS_MAJORITY", 81),
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
            Self::FileExists { .. } => vec!["--force writes over it".into()],
            Self::NobodyToAsk => vec!["give --yes to do it".into()],
            Self::HasMajority { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![
                    format!("`flotilla start{flag}` brings back nodes that are down"),
                    format!("`flotilla etcd snapshot restore FILE{flag}` goes back to a snapshot"),
                ]
            }
            Self::NoSurvivor { cluster } => {
                let flag = profile_flag(cluster);
                vec![
                    format!(
                        "without its keys it cannot be brought back: `flotilla delete{flag}`, then `start`"
                    ),
                    "that removes the disks of all nodes, with volumes and images: copy what you need first"
                        .into(),
                ]
            }
            Self::HasData { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![
                    format!("`flotilla start{flag}` starts them: with a majority etcd needs no recovery"),
                    format!("`flotilla logs{flag} --node NAME` tells why etcd does not start in a node"),
                    "--force recovers from one of them and moves the data of the others aside".into(),
                ]
            }
            Self::BadSnapshot { source: SnapshotError::Io(_), .. } => Vec::new(),
            Self::BadSnapshot { .. } => {
                vec!["`flotilla etcd snapshot save FILE` writes a snapshot (nothing was changed)".into()]
            }
            Self::NoChecksum { .. } => {
                vec![
                    "--force restores it as it is, as a copy of a member's database (nothing was changed)"
                        .into(),
                ]
            }
            Self::Foreign { .. } => {
                vec!["--force restores it: objects and nodes are then those of the other cluster".into()]
            }
            Self::UnknownOrigin { .. } => vec!["--force restores it".into()],
        }
    }
}
