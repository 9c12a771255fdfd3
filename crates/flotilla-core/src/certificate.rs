//! The certificates of a node, and when they expire.

use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

/// How long before its end a certificate is renewed. A cluster that was just started may run for months.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long before its end an authority is warned of: nothing renews it, and moving to a new cluster takes time.
const AUTHORITY_WARNED_BEFORE: SignedDuration = SignedDuration::from_hours(365 * 24);

/// A certificate of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// Its name in `kubeadm certs`, such as `apiserver`, `etcd-peer` or `admin.conf`; `kubelet-client` or
    /// `kubelet-server` for those of the kubelet.
    pub name: &'static str,
    #[serde(serialize_with = "as_text")]
    pub expires: Timestamp,
    /// What it has signed expires with it, and it cannot be renewed.
    pub is_authority: bool,
}

/// The certificates that a machine's part of Kubernetes works with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Certificates {
    pub all: Vec<Certificate>,
    /// Those that servers sign for themselves and no client verifies. They are renewed like the others, but nothing ends
    /// with them.
    pub unverified: Vec<Certificate>,
    /// A renewal was interrupted: programs may still use the certificates that they had before.
    pub unfinished: bool,
}

fn as_text<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

impl Certificate {
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    /// Whether it is to be renewed: it has expired, or will soon. Authorities never are.
    pub fn is_due(&self, now: Timestamp) -> bool {
        !self.is_authority && self.expires.duration_since(now) < RENEWED_BEFORE
    }

    /// Whether a user should know that it expires.
    pub fn expires_soon(&self, now: Timestamp) -> bool {
        self.is_due(now) || self.is_authority && self.expires.duration_since(now) < AUTHORITY_WARNED_BEFORE
    }
}

impl Certificates {
    /// Whether any of them is to be renewed.
    pub fn are_due(&self, now: Timestamp) -> bool {
        self.unfinished || self.due(now).next().is_some()
    }

    /// Those that are to be renewed.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &Certificate> {
        self.all.iter().chain(&self.unverified).filter(move |certificate| certificate.is_due(now))
    }

    /// The one that expires first, of those that can be renewed and that somebody verifies.
    pub fn first(&self) -> Option<&Certificate> {
        self.all.iter().filter(|certificate| !certificate.is_authority).min_by_key(|it| it.expires)
    }

    /// The authority that expires first.
    pub fn first_authority(&self) -> Option<&Certificate> {
        self.all.iter().filter(|certificate| certificate.is_authority).min_by_key(|it| it.expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiring(name: &'static str, days: i64, is_authority: bool) -> Certificate {
        let expires = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(days * 24);
        Certificate { name, expires, is_authority }
    }

    #[test]
    fn what_expires_within_a_quarter_of_a_year_is_due_and_an_authority_never_is() {
        let now = Timestamp::UNIX_EPOCH;
        for (days, due) in [(-700, true), (0, true), (89, true), (91, false), (3650, false)] {
            assert_eq!(expiring("apiserver", days, false).is_due(now), due, "{days} days");
            assert!(!expiring("ca", days, true).is_due(now));
        }
        assert!(expiring("ca", 300, true).expires_soon(now) && !expiring("ca", 400, true).expires_soon(now));
        assert!(expiring("ca", 0, true).has_expired(now) && !expiring("ca", 1, true).has_expired(now));
    }

    #[test]
    fn the_first_to_expire_is_found_among_its_kind() {
        let all = vec![
            expiring("ca", 5, true),
            expiring("apiserver", 30, false),
            expiring("etcd-peer", 20, false),
            expiring("etcd-ca", 2, true),
        ];
        let certificates = Certificates { all, ..Certificates::default() };
        assert_eq!(certificates.first().unwrap().name, "etcd-peer");
        assert_eq!(certificates.first_authority().unwrap().name, "etcd-ca");
    }

    #[test]
    fn an_interrupted_renewal_is_to_be_repeated() {
        let all = vec![expiring("apiserver", 3650, false)];
        let whole = Certificates { all, ..Certificates::default() };
        assert!(!whole.are_due(Timestamp::UNIX_EPOCH));
        assert!(Certificates { unfinished: true, ..whole }.are_due(Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn what_nobody_verifies_is_renewed_but_nothing_ends_with_it() {
        let unverified = vec![expiring("kubelet-server", 1, false)];
        let certificates = Certificates { unverified, ..Certificates::default() };
        assert!(certificates.are_due(Timestamp::UNIX_EPOCH));
        assert_eq!(certificates.first(), None);
    }
}
