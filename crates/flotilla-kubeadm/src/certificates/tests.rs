use flotilla_testkit::fake::FakeMachine;
use proptest::prelude::*;

use super::*;

pub(super) const EXPIRED: &str = include_str!("../fixture/expired.crt");
pub(super) const LONG: &str = include_str!("../fixture/nobody.crt");
pub(super) const NEVER: &str = include_str!("../fixture/never.crt");
const KEY: &str = include_str!("../fixture/nobody.key");

/// A kubeconfig whose user has this certificate.
pub(super) fn kubeconfig(certificate: &str) -> String {
    let (authority, certificate, key) = (BASE64.encode(LONG), BASE64.encode(certificate), BASE64.encode(KEY));
    format!(
        "clusters:\n- cluster:\n    certificate-authority-data: {authority}\n  name: demo\nusers:\n- name: a\n  user:\n    \
         client-certificate-data: {certificate}\n    client-key-data: {key}\n"
    )
}

fn shown(certificates: &Certificates) -> String {
    let line = |it: &Certificate| {
        let kind = if it.is_authority { " (authority)" } else { "" };
        format!("{} {}{kind}", it.name, it.expires)
    };
    certificates.all.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn all_that_a_node_works_with_is_read_whether_it_is_on_or_off() {
    let admin = kubeconfig(EXPIRED);
    let both = format!("{LONG}{KEY}");
    let machine = FakeMachine::new(
        &[
            ("/etc/kubernetes/pki/ca.crt", NEVER.as_bytes()),
            ("/etc/kubernetes/pki/apiserver.crt", LONG.as_bytes()),
            ("/etc/kubernetes/pki/etcd/peer.crt", EXPIRED.as_bytes()),
            ("/etc/kubernetes/admin.conf", admin.as_bytes()),
            (KUBELET_CERTIFICATE, both.as_bytes()),
            (KUBELET_CONF, b"users:\n- name: a\n  user:\n    client-certificate: /a/file\n"),
        ],
        &[],
    );
    let found = look(&machine).await.unwrap();
    insta::assert_snapshot!(shown(&found), @"
    ca 9999-12-30T22:00:00.999999999Z (authority)
    apiserver 2126-10-23T21:50:12Z
    etcd-peer 2025-01-01T00:00:00Z
    admin.conf 2025-01-01T00:00:00Z
    kubelet-client 2126-10-23T21:50:12Z
    ");
    assert_eq!(look(&machine.off()).await.unwrap(), found);
    assert_eq!(machine.log(), [] as [&str; 0], "no program runs in the node");
}

#[tokio::test]
async fn a_kubelet_that_has_not_rotated_yet_has_its_certificate_in_its_kubeconfig() {
    let machine = FakeMachine::new(&[(KUBELET_CONF, kubeconfig(EXPIRED).as_bytes())], &[]);
    assert_eq!(shown(&look(&machine).await.unwrap()), "kubelet-client 2025-01-01T00:00:00Z");
}

#[test]
fn of_several_certificates_the_first_to_expire_counts() {
    let first = expiry_of_pem(EXPIRED.as_bytes());
    assert!(first < expiry_of_pem(LONG.as_bytes()), "{first:?}");
    for chain in [[LONG, EXPIRED], [EXPIRED, LONG]] {
        assert_eq!(expiry_of_pem(chain.concat().as_bytes()), first);
    }
}

#[tokio::test]
async fn what_is_no_certificate_is_left_out_and_a_broken_disk_is_an_error() {
    let machine = FakeMachine::new(
        &[
            ("/etc/kubernetes/pki/ca.crt", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            ("/etc/kubernetes/pki/apiserver.crt", &LONG.as_bytes()[..200]),
            ("/etc/kubernetes/admin.conf", b"users: {"),
            (
                "/etc/kubernetes/scheduler.conf",
                b"users:\n- name: a\n  user: {client-certificate-data: '***'}\n",
            ),
        ],
        &[],
    );
    assert_eq!(look(&machine).await.unwrap(), Certificates::default());
    machine.break_file("/etc/kubernetes/pki/ca.crt");
    assert!(look(&machine).await.is_err());
}

proptest! {
    #[test]
    fn no_content_of_a_file_is_fatal(content: Vec<u8>, at in 0..LONG.len(), byte: u8) {
        let mut damaged = LONG.as_bytes().to_vec();
        damaged[at] = byte;
        for content in [&content, &damaged] {
            for path in ["ca.crt", "admin.conf"] {
                let _ = expiry(path, content);
            }
        }
    }
}
