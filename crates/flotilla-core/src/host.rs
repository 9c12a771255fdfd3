//! A place where machines run: its drivers, the network between them, and what can be said about it.

use std::fmt;

use async_trait::async_trait;
use flotilla_spec::error::Requirement;

use crate::cluster::IdRange;
use crate::driver::{Driver, DriverError};
use crate::network::Network;

/// A computer that machines run on. The network belongs to it, and all its drivers plug into that one.
#[async_trait]
pub trait Host: Send + Sync {
    /// What errors call it.
    fn name(&self) -> &str;

    /// Finds ranges of [`IdRange::SIZE`] ids for user namespaces that nobody of the host has, nor `taken`: as many as asked for,
    /// or an error. Hands out nothing.
    async fn free_ids(&self, taken: &[IdRange], count: usize) -> Result<Vec<IdRange>, DriverError>;

    /// Looks at the host and says what it lacks, and what is well. Changes nothing.
    async fn examine(&self) -> Vec<Finding>;

    /// The same for what only some nodes ask for: what its drivers say ([`Driver::examine_options`]). [`Driver::check`]
    /// refuses a node that cannot have it.
    async fn examine_options(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for driver in self.drivers() {
            findings.extend(driver.examine_options().await);
        }
        findings
    }

    fn drivers(&self) -> Vec<&dyn Driver>;

    fn network(&self) -> &dyn Network;
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.name()).finish()
    }
}

/// Something a host check has to say.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// A stable name, as errors have them: `HOST_NO_OVERLAY`.
    #[serde(rename = "name")]
    pub code: &'static str,
    #[serde(skip)]
    pub exit_status: u8,
    pub severity: Severity,
    /// What was looked at, and what was found.
    pub text: String,
    /// What to do about it; empty where all is well.
    pub cure: String,
}

/// Something that a node wants of the host and cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub requirement: Requirement,
    pub finding: Finding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    Good,
    /// It works without, but not as well.
    Warning,
    /// No machine can be made here.
    Fatal,
}
