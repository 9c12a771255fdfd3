//! The cluster as a whole: version, address, age.

use std::time::{Duration, SystemTime};

use flotilla_core::Cluster;
use jiff::Timestamp;
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct About {
    kubernetes_version: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip)]
    age: Option<Duration>,
}

impl About {
    pub(super) fn new(cluster: &Cluster, server: String, created: Option<SystemTime>) -> Self {
        let timestamp = created.and_then(|time| Timestamp::try_from(time).ok());
        Self {
            kubernetes_version: cluster.spec.kubernetes_version.to_string(),
            server,
            created: timestamp.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            age: created.and_then(|time| time.elapsed().ok()),
        }
    }

    /// `cluster: demo, Kubernetes v1.37.1, https://10.213.0.254:6443, created 3d ago`.
    pub(super) fn text(&self, name: &str) -> String {
        let age = self.age.map(|age| format!(", created {} ago", short(age))).unwrap_or_default();
        format!("cluster: {name}, Kubernetes {}, {}{age}", self.kubernetes_version, self.server)
    }
}

/// `5s`, `3m`, `4h`, `2d`, as `kubectl` writes ages.
fn short(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ages = [5, 119, 180, 7199, 7200, 172_800].map(|seconds| short(Duration::from_secs(seconds)));
        assert_eq!(ages, ["5s", "119s", "3m", "119m", "2h", "2d"]);
    }
}
