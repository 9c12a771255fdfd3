//! What can be wrong with a cluster's file, beside what is in it.

use flotilla_core::explain::{Code, Explain, profile_flag};
use flotilla_spec::{ClusterName, NodeName};

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {file}")]
    Read { file: String, source: std::io::Error },
    #[error("{file} is longer than 1 MiB")]
    TooLong { file: String },
    #[error("the file describes cluster {file}, but -p names {given}")]
    OtherCluster { file: String, given: String },
    #[error("cannot apply these changes to cluster {cluster} (nothing was changed)")]
    Impossible {
        cluster: ClusterName,
        changes: Vec<String>,
        /// The workers that can be made again for it; none if that is not enough.
        workers: Vec<NodeName>,
    },
    #[error("cluster {cluster} already exists and differs from the file")]
    Differs { cluster: ClusterName, changes: Vec<String> },
    #[error("cannot change labels or taints: cluster {cluster} is stopped")]
    Asleep { cluster: ClusterName },
    #[error("cannot prompt: no terminal")]
    NobodyToAsk,
    #[error("the file has all nodes of cluster {cluster} stopped: nothing to start")]
    NothingToStart { cluster: ClusterName },
}

impl Explain for FileError {
    fn code(&self) -> Code {
        let (name, exit_status) = match self {
            Self::Read { .. } | Self::TooLong { .. } => ("MK_CONFIG", 18),
            Self::OtherCluster { .. }
            | Self::Asleep { .. }
            | Self::NobodyToAsk
            | Self::NothingToStart { .. } => ("MK_USAGE", 14),
            Self::Impossible { .. } | Self::Differs { .. } => ("MK_CONFLICT", 11),
        };
        Code { name, exit_status }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::OtherCluster { .. } => vec!["leave out -p: the name is in the file".into()],
            Self::Impossible { cluster, workers, .. } if !workers.is_empty() => {
                let names = workers.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
                let flag = profile_flag(cluster);
                vec![format!(
                    "delete these nodes with `flotilla node delete {names}{flag}`, then run the command again to add them with the new settings"
                )]
            }
            Self::Impossible { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![format!("delete it first with `flotilla delete{flag}`, or change `name` in the file")]
            }
            Self::Differs { .. } => vec!["change it with `flotilla apply -f FILE`".into()],
            Self::NobodyToAsk => {
                vec!["use --yes to continue without a prompt, or --dry-run to see the changes".into()]
            }
            Self::Asleep { cluster } => {
                vec![format!("start it first with `flotilla start{}`", profile_flag(cluster))]
            }
            Self::NothingToStart { .. } => vec!["set at least one control plane to `state: running`".into()],
            Self::Read { .. } | Self::TooLong { .. } => Vec::new(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Impossible { changes, .. } | Self::Differs { changes, .. } => changes.clone(),
            _ => Vec::new(),
        }
    }
}
