//! `flotilla doctor`: what this host lacks, and what will soon be wrong with its clusters.

use flotilla_core::Finding;

use crate::{Context, admission, certificates};

/// Everything that was looked at, good and bad. Never fails: what cannot be looked at is a finding.
pub async fn run(cx: &Context<'_>) -> Vec<Finding> {
    let mut findings = admission::examine(cx, &cx.bundles.default_version()).await;
    findings.extend(cx.fleet.examine_options().await);
    findings.extend(certificates::examine(cx).await);
    findings
}
