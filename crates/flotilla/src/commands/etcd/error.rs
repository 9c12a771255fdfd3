//! What can keep etcd from being saved, restored or recovered.

use std::path::PathBuf;

use flotilla_engine::explain::{Code, Explain, profile_flag};
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
}

impl Explain for EtcdError {
    fn code(&self) -> Code {
        let (name, exit_status) = match self {
            Self::FileExists { .. } => ("HOST_FILE_EXISTS", 31),
            Self::NobodyToAsk => ("MK_USAGE", 14),
            Self::HasMajority { .. } => ("GUEST_HAS_MAJORITY", 81),
            Self::NoSurvivor { .. } => ("GUEST_NO_SURVIVOR", 85),
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
                vec![format!(
                    "without its keys it cannot be brought back: `flotilla delete{flag}`, then `start`"
                )]
            }
        }
    }
}
