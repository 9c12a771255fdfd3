//! What `doctor` and `status` say of certificates: when they expire, and what to do about it.

use flotilla_core::explain::profile_flag;
use flotilla_core::{Certificate, Certificates, Cluster, Code, Finding, Severity};
use flotilla_spec::{ClusterName, NodeName};
use jiff::Timestamp;

use crate::Context;

/// A warning only: it does not decide the exit status of `doctor`.
const EXPIRY: Code = Code { name: "GUEST_CERTIFICATES", exit_status: 0 };
const AUTHORITY: &str = "GUEST_CA_EXPIRED";

/// What `doctor` says of the certificates of all clusters on this host.
pub async fn examine(cx: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in cx.store.names().unwrap_or_default() {
        // A state that cannot be read is for other commands to report.
        if let Ok(Some(cluster)) = cx.store.load(&name) {
            findings.extend(examine_cluster(cx, &cluster).await);
        }
    }
    findings
}

async fn examine_cluster(cx: &Context<'_>, cluster: &Cluster) -> Vec<Finding> {
    let machines = cx.engine(cluster.name()).machines(cluster).await.unwrap_or_default();
    let mut of_nodes = Vec::new();
    for (node, machine) in machines {
        // None of a node whose certificates cannot be read.
        let read = cx.bootstrapper.certificates(machine.as_ref()).await;
        of_nodes.extend(read.ok().map(|certificates| (node, certificates)));
    }
    findings(cluster.name(), &of_nodes, Timestamp::now())
}

/// Of each kind the one that expires first.
fn findings(name: &ClusterName, nodes: &[(NodeName, Certificates)], now: Timestamp) -> Vec<Finding> {
    let first = |pick: fn(&Certificates) -> Option<&Certificate>| {
        let found = nodes.iter().filter_map(move |(node, certificates)| Some((node, pick(certificates)?)));
        found.min_by_key(|(_, certificate)| certificate.expires)
    };
    let found =
        [(EXPIRY.name, first(Certificates::first)), (AUTHORITY, first(Certificates::first_authority))];
    let findings = found.into_iter().filter_map(|(code, found)| {
        let (node, certificate) = found?;
        let soon = certificate.expires_soon(now);
        let what =
            if certificate.is_authority { "the certificate authority" } else { "the first certificate" };
        let when = when(certificate, now);
        Some(Finding {
            code,
            exit_status: EXPIRY.exit_status,
            severity: if soon { Severity::Warning } else { Severity::Good },
            text: format!("{what} of cluster {name} {when} ({} on node {node})", certificate.name),
            cure: if soon { cure(certificate, name, now) } else { String::new() },
        })
    });
    findings.collect()
}

/// The lines that `status` has for what expires soon.
pub fn notices(name: &ClusterName, certificates: &Certificates, now: Timestamp) -> Vec<String> {
    let found = [("certificates", certificates.first()), ("authority", certificates.first_authority())];
    let soon =
        found.into_iter().filter_map(|(label, it)| Some((label, it.filter(|it| it.expires_soon(now))?)));
    soon.map(|(label, it)| format!("{label}: {} {}; {}\n", it.name, when(it, now), cure(it, name, now)))
        .collect()
}

fn when(certificate: &Certificate, now: Timestamp) -> String {
    let verb = if certificate.has_expired(now) { "expired" } else { "expires" };
    format!("{verb} on {}", certificate.expires.strftime("%Y-%m-%d"))
}

fn cure(certificate: &Certificate, name: &ClusterName, now: Timestamp) -> String {
    if certificate.is_authority && certificate.has_expired(now) {
        "flotilla cannot renew it: create a new cluster".to_owned()
    } else if certificate.is_authority {
        "flotilla cannot renew it: move to a new cluster before then".to_owned()
    } else {
        format!("`flotilla start{}` renews what expires within 90 days", profile_flag(name))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn expiring(name: &'static str, days: i64, is_authority: bool) -> Certificate {
        let expires = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(days * 24);
        Certificate { name, expires, is_authority }
    }

    fn certificates(days: i64, authority: i64) -> Certificates {
        let all = vec![
            expiring("ca", authority, true),
            expiring("apiserver", days, false),
            expiring("admin.conf", days + 1, false),
        ];
        Certificates { all, ..Certificates::default() }
    }

    #[test]
    fn doctor_tells_what_expires_first_and_the_cure_where_it_is_soon() {
        let (demo, now) = ("demo".parse().unwrap(), Timestamp::UNIX_EPOCH);
        let node = |name: &str| name.parse::<NodeName>().unwrap();
        let nodes = [(node("demo"), certificates(3650, 36500)), (node("demo-m02"), certificates(10, 36500))];
        let told = |nodes: &[_]| {
            let line = |it: Finding| format!("{:?} {}: {} | {}", it.severity, it.code, it.text, it.cure);
            findings(&demo, nodes, now).into_iter().map(line).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(told(&nodes), @"
        Warning GUEST_CERTIFICATES: the first certificate of cluster demo expires on 1970-01-11 (apiserver on node demo-m02) | `flotilla start -p demo` renews what expires within 90 days
        Good GUEST_CA_EXPIRED: the certificate authority of cluster demo expires on 2069-12-07 (ca on node demo) |
        ");
        insta::assert_snapshot!(told(&[(node("demo"), certificates(-700, -1))]), @"
        Warning GUEST_CERTIFICATES: the first certificate of cluster demo expired on 1968-02-01 (apiserver on node demo) | `flotilla start -p demo` renews what expires within 90 days
        Warning GUEST_CA_EXPIRED: the certificate authority of cluster demo expired on 1969-12-31 (ca on node demo) | flotilla cannot renew it: create a new cluster
        ");
        assert_eq!(told(&[(node("demo"), Certificates::default())]), "");
    }

    #[test]
    fn status_has_a_line_only_for_what_expires_soon() {
        let (demo, now) = ("demo".parse().unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(notices(&demo, &certificates(3650, 36500), now), [] as [&str; 0]);
        insta::assert_snapshot!(notices(&demo, &certificates(89, 364), now).concat(), @"
        certificates: apiserver expires on 1970-03-31; `flotilla start -p demo` renews what expires within 90 days
        authority: ca expires on 1970-12-31; flotilla cannot renew it: move to a new cluster before then
        ");
    }
}
