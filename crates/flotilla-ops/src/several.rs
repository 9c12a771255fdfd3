//! The same done to several clusters.

use flotilla_core::{Code, Explain};
use flotilla_spec::ClusterName;

use crate::{Context, OpError};

/// Does something to each cluster. One that fails does not keep the others from it; all failures are reported in the
/// end. `done` is what the clusters are afterwards: "stopped".
pub async fn each(
    cx: &Context<'_>,
    names: Vec<ClusterName>,
    done: &'static str,
    act: impl AsyncFn(ClusterName) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let total = names.len();
    let mut failures = Vec::new();
    for name in names {
        match act(name.clone()).await {
            Err(failure) if cx.cancel.is_cancelled() => return Err(failure),
            Err(failure) => failures.push((name, failure)),
            Ok(()) => {}
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Several::new(&failures, total, done).into()) }
}

/// Some of several clusters could not be changed. The code is that of the first.
#[derive(Debug, thiserror::Error)]
#[error("{failed} of {total} clusters could not be {done}")]
struct Several {
    failed: usize,
    total: usize,
    done: &'static str,
    code: Code,
    hints: Vec<String>,
    /// Each failure in full.
    details: Vec<String>,
}

impl Several {
    fn new(failures: &[(ClusterName, OpError)], total: usize, done: &'static str) -> Self {
        let mut details = Vec::new();
        for (name, failure) in failures {
            details.push(format!("{name}: {}", failure.chain().join(": ")));
            details.extend(failure.details().iter().map(|detail| format!("    {detail}")));
        }
        let hints = failures.iter().flat_map(|(_, failure)| failure.hints()).collect();
        Self { failed: failures.len(), total, done, code: failures[0].1.code(), hints, details }
    }
}

impl Explain for Several {
    fn code(&self) -> Code {
        self.code
    }

    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }

    fn details(&self) -> Vec<String> {
        self.details.clone()
    }
}
