//! The certificate of the kubelet's own server, made before the kubelet starts: it would make an RSA key, which takes a
//! tenth of a second of CPU time on every node.

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Machine};
use flotilla_spec::{Component, ExtraOption};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};

use crate::disk;
use crate::files::{KUBELET_SERVING, KUBELET_SERVING_KEY};
use crate::phase::in_node;

/// As long as those of kubeadm.
const YEARS: i16 = 10;

/// Makes a certificate unless there is one, or the kubelet gets its own from the cluster or from a file.
pub(crate) async fn ensure(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
) -> Result<(), BootstrapError> {
    if is_users(cluster, node) || disk::read(machine, KUBELET_SERVING).await?.is_some() {
        return Ok(());
    }
    let (certificate, key) = create(node).map_err(|source| BootstrapError::Api {
        action: format!("create the certificate of the kubelet on node {}", node.spec.name),
        source: source.into(),
    })?;
    // The certificate last: where it exists, the key does, too.
    for (path, mode, text) in [(KUBELET_SERVING_KEY, 0o600, key), (KUBELET_SERVING, 0o644, certificate)] {
        let put = machine.guest().write(path, mode, text.as_bytes()).await;
        put.map_err(in_node("write the kubelet's certificate", machine))?;
    }
    Ok(())
}

/// Whether the user's settings say where the kubelet has its certificate from.
fn is_users(cluster: &Cluster, node: &Node) -> bool {
    const FIELDS: [&str; 2] = ["serverTLSBootstrap", "tlsCertFile"];
    const FLAGS: [&str; 3] = ["rotate-server-certificates", "tls-cert-file", "cert-dir"];
    let is_flag =
        |option: &ExtraOption| option.component() == Component::Kubelet && FLAGS.contains(&option.key());
    node.spec.kubelet.iter().any(|(field, _)| FIELDS.contains(&field))
        || cluster.spec.extra_config.iter().chain(&node.spec.extra_config).any(is_flag)
}

/// A self-signed certificate and its key, both in PEM.
fn create(node: &Node) -> Result<(String, String), rcgen::Error> {
    let name = node.spec.name.to_string();
    let mut params = CertificateParams::new([name.clone(), node.address.to_string()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let date = |day: Date| {
        rcgen::date_time_ymd(day.year().into(), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    // A clock that is a little behind must not find it too young.
    params.not_before = date(today.saturating_sub(1.day()));
    params.not_after = date(today.saturating_add(YEARS.years()));
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use flotilla_testkit::fake::{self, FakeMachine};

    use super::*;
    use crate::certificates;

    async fn made(spec: impl FnOnce(&mut Cluster)) -> FakeMachine {
        let mut cluster = fake::cluster("10.213.0.0/24");
        spec(&mut cluster);
        let machine = FakeMachine::new(&[], &[]);
        ensure(&cluster, &cluster.primary().unwrap(), &machine).await.unwrap();
        machine
    }

    #[tokio::test]
    async fn a_kubelet_has_a_certificate_for_ten_years_before_it_starts() {
        let machine = made(|_| ()).await;
        assert!(machine.file(KUBELET_SERVING_KEY).unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
        let found = certificates::look(&machine).await.unwrap();
        let found = found.unverified.iter().find(|found| found.name == "kubelet-server").unwrap();
        let days = found.expires.duration_since(Timestamp::now()).as_hours() / 24;
        assert!((3640..=3660).contains(&days), "{days} days");
        // It stays.
        let before = machine.file(KUBELET_SERVING);
        let cluster = fake::cluster("10.213.0.0/24");
        ensure(&cluster, &cluster.primary().unwrap(), &machine).await.unwrap();
        assert_eq!(machine.file(KUBELET_SERVING), before);
    }

    #[tokio::test]
    async fn a_kubelet_whose_certificate_is_the_users_business_gets_none() {
        let option = "kubelet.rotate-server-certificates=true";
        let machine = made(|cluster| cluster.spec.extra_config = vec![option.parse().unwrap()]).await;
        assert_eq!(machine.file(KUBELET_SERVING), None);
    }
}
