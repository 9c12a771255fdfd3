//! What can be wrong with a cluster's file, beside what is in it.

use flotilla_core::explain::{Code, Explain, profile_flag};
use flotilla_spec::{ClusterName, NodeName};

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {file}")]
    Read { file: String, source: std::io::Error },
    #[error("{file} is longer than 1 MiB")]
    TooLong { file: String },
    #[error("the file is about cluster {file}, and -p says {given}")]
    OtherCluster { file: String, given: String },
    #[error("cluster {cluster} cannot be changed like that; nothing was touched")]
    Impossible {
        cluster: ClusterName,
        changes: Vec<String>,
        /// The workers that can be made anew for it; none if that is not enough.
        workers: Vec<NodeName>,
    },
    #[error("cluster {cluster} is there already, and is not as the file says")]
    Differs { cluster: ClusterName, changes: Vec<String> },
    #[error("labels and taints are changed in the running cluster, and {cluster} is to be stopped")]
    Asleep { cluster: ClusterName },
    #[error("there is no terminal to ask on whether that is to be done")]
    NobodyToAsk,
    #[error("the file wants cluster {cluster} stopped: there is nothing to start")]
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
            Self::OtherCluster { .. } => vec!["leave out -p: the file has the name".into()],
            Self::Impossible { cluster, workers, .. } if !workers.is_empty() => {
                let names = workers.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
                let flag = profile_flag(cluster);
                vec![format!(
                    "delete what cannot change with `flotilla node delete {names}{flag}`: the same command then adds it anew"
                )]
            }
            Self::Impossible { cluster, .. } => {
                let flag = profile_flag(cluster);
                vec![format!("delete it first with `flotilla delete{flag}`, or give the file another name")]
            }
            Self::Differs { .. } => vec!["change it with `flotilla apply -f FILE`".into()],
            Self::NobodyToAsk => vec!["give --yes to do it, or --dry-run to see it".into()],
            Self::Asleep { cluster } => {
                vec![format!("start it first with `flotilla start{}`", profile_flag(cluster))]
            }
            Self::NothingToStart { .. } => vec!["let at least the control plane run".into()],
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
