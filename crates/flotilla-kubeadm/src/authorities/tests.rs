use flotilla_testkit::fake::{self, FakeMachine};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

use super::*;

/// A certificate and its key.
fn pair(change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    pair_with(&KeyPair::generate().unwrap(), change)
}

fn pair_with(key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    change(&mut params);
    (params.self_signed(key).unwrap().pem(), key.serialize_pem())
}

fn authorities(files: &[(&str, &str)]) -> Authorities {
    Authorities(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

fn problem_of(files: &[(&str, &str)]) -> Option<String> {
    problem(&authorities(files), "2026-01-01T00:00:00Z".parse().unwrap())
}

#[test]
fn sound_authorities_are_accepted() {
    let ((ca, key), (etcd, etcd_key)) = (pair(|_| ()), pair(|_| ()));
    assert_eq!(problem_of(&[("ca.crt", &ca), ("ca.key", &key)]), None);
    let more = [
        ("ca.crt", ca.as_str()),
        ("ca.key", &key),
        ("etcd/ca.crt", &etcd),
        ("etcd/ca.key", &etcd_key),
        ("sa.pub", "a public key"),
        ("sa.key", &key),
    ];
    assert_eq!(problem_of(&more), None);
}

#[test]
fn what_kubeadm_could_not_use_is_refused_with_the_reason() {
    let (ca, key) = pair(|_| ());
    let (_, another_key) = pair(|_| ());
    let (leaf, leaf_key) = pair(|params| params.is_ca = IsCa::NoCa);
    let (old, old_key) = pair(|params| params.not_after = date_time_ymd(2025, 1, 1));
    let (early, early_key) = pair(|params| params.not_before = date_time_ymd(2027, 1, 1));
    let (edwards, edwards_key) = pair_with(&KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(), |_| ());
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let sets: [&[(&str, &str)]; 13] = [
        &[],
        &[("ca.crt", &ca)],
        &[("ca.key", &key)],
        &[("ca.crt", "garbage"), ("ca.key", &key)],
        &[("ca.crt", &ca), ("ca.key", "garbage")],
        &[("ca.crt", &ca), ("ca.key", encrypted)],
        &[("ca.crt", &ca), ("ca.key", &another_key)],
        &[("ca.crt", &leaf), ("ca.key", &leaf_key)],
        &[("ca.crt", &old), ("ca.key", &old_key)],
        &[("ca.crt", &early), ("ca.key", &early_key)],
        &[("ca.crt", &edwards), ("ca.key", &edwards_key)],
        &[("ca.crt", &ca), ("ca.key", &key), ("etcd/ca.crt", &ca)],
        &[("ca.crt", &ca), ("ca.key", &key), ("sa.key", &key)],
    ];
    let problems = sets.map(|files| problem_of(files).unwrap_or_default());
    insta::assert_snapshot!(problems.join("\n"), @"
    there is no ca.crt
    there is no ca.key
    there is no ca.crt
    ca.crt is no certificate in PEM
    ca.key is no private key in PEM
    ca.key is encrypted
    ca.key is not the key of ca.crt
    ca.crt is no certificate of an authority (CA:TRUE)
    ca.crt has expired
    ca.crt is not valid yet
    ca.key is neither an RSA key of 2048 to 8192 bits nor an ECDSA key on P-256 or P-384
    there is no etcd/ca.key
    there is no sa.pub
    ");
}

#[tokio::test]
async fn kubeadm_finds_them_and_only_root_can_read_the_keys() {
    let mut cluster = fake::cluster("10.213.0.0/24");
    let machine = FakeMachine::new(&[], &[]);
    put(&cluster, &machine).await.unwrap();
    assert_eq!(machine.log(), [""; 0]);
    cluster.allocations.authorities = Some(authorities(&[("ca.crt", "C"), ("etcd/ca.key", "K")]));
    put(&cluster, &machine).await.unwrap();
    assert_eq!(machine.file("/etc/kubernetes/pki/ca.crt").as_deref(), Some("C"));
    assert_eq!(machine.file("/etc/kubernetes/pki/etcd/ca.key").as_deref(), Some("K"));
    insta::assert_snapshot!(machine.log().join("\n"), @"
    put /etc/kubernetes/pki/ca.crt 644
    put /etc/kubernetes/pki/etcd/ca.key 600
    ");
}

#[test]
fn keys_are_in_no_debug_output() {
    let shown = format!("{:?}", authorities(&[("ca.key", "SECRET")]));
    assert_eq!(shown, r#"{"ca.key"}"#);
}
