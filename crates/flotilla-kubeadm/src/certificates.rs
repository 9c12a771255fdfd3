//! When the certificates of a node expire, and their renewal.
//!
//! Reading starts no program in the node, so that every `start` can afford it. The files were written by the node and
//! may contain anything: a file without a certificate is skipped.

mod renewal;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flotilla_core::{BootstrapError, Certificate, Certificates, Machine};
use futures::future::try_join_all;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use x509_cert::der::Decode;

use crate::files::{KUBELET_CERTIFICATE, KUBELET_CONF, KUBELET_SERVING, RENEWAL_CONFIG};
use crate::{disk, yaml};

pub(crate) use renewal::renew;

/// The kubelet's own certificates, which kubeadm does not manage.
const KUBELET_CLIENT: &str = "kubelet-client";
const KUBELET_SERVER: &str = "kubelet-server";

/// The certificates of a node, by kubeadm's names, and where they are. A worker has some of them.
const FILES: [(&str, &str); 16] = [
    ("ca", "/etc/kubernetes/pki/ca.crt"),
    ("front-proxy-ca", "/etc/kubernetes/pki/front-proxy-ca.crt"),
    ("etcd-ca", "/etc/kubernetes/pki/etcd/ca.crt"),
    ("apiserver", "/etc/kubernetes/pki/apiserver.crt"),
    ("apiserver-kubelet-client", "/etc/kubernetes/pki/apiserver-kubelet-client.crt"),
    ("apiserver-etcd-client", "/etc/kubernetes/pki/apiserver-etcd-client.crt"),
    ("front-proxy-client", "/etc/kubernetes/pki/front-proxy-client.crt"),
    ("etcd-server", "/etc/kubernetes/pki/etcd/server.crt"),
    ("etcd-peer", "/etc/kubernetes/pki/etcd/peer.crt"),
    ("etcd-healthcheck-client", "/etc/kubernetes/pki/etcd/healthcheck-client.crt"),
    ("admin.conf", "/etc/kubernetes/admin.conf"),
    ("super-admin.conf", "/etc/kubernetes/super-admin.conf"),
    ("controller-manager.conf", "/etc/kubernetes/controller-manager.conf"),
    ("scheduler.conf", "/etc/kubernetes/scheduler.conf"),
    (KUBELET_CLIENT, KUBELET_CERTIFICATE),
    (KUBELET_SERVER, KUBELET_SERVING),
];

const AUTHORITIES: [&str; 3] = ["ca", "front-proxy-ca", "etcd-ca"];

/// Reads those of a machine, on or off.
pub(crate) async fn look(machine: &dyn Machine) -> Result<Certificates, BootstrapError> {
    // Before the first rotation, the kubelet's certificate is in its kubeconfig.
    let files = FILES.into_iter().chain([(KUBELET_CLIENT, KUBELET_CONF)]);
    let found = try_join_all(files.map(|(name, path)| async move {
        let Some(content) = disk::read(machine, path).await? else { return Ok::<_, BootstrapError>(None) };
        let is_authority = AUTHORITIES.contains(&name);
        Ok(expiry(path, &content).map(|expires| Certificate { name, expires, is_authority }))
    }));
    let found = found.await?.into_iter().flatten();
    // The kubelet signs it itself, and the API server accepts any.
    let (unverified, all) = found.partition(|certificate| certificate.name == KUBELET_SERVER);
    let unfinished = disk::has(machine, RENEWAL_CONFIG).await?;
    Ok(Certificates { all, unverified, unfinished })
}

/// When the certificates in a file expire, the first of several; none if it has none.
fn expiry(path: &str, content: &[u8]) -> Option<Timestamp> {
    let is_kubeconfig = Path::new(path).extension().is_some_and(|extension| extension == "conf");
    if is_kubeconfig { expiry_of_user(content) } else { expiry_of_pem(content) }
}

fn expiry_of_pem(pem: &[u8]) -> Option<Timestamp> {
    let certificates = CertificateDer::pem_slice_iter(pem);
    certificates.filter_map(|der| expiry_of_certificate(&der.ok()?)).min()
}

fn expiry_of_certificate(der: &[u8]) -> Option<Timestamp> {
    let certificate = x509_cert::Certificate::from_der(der).ok()?;
    let seconds = certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs();
    // The last moment of the year 9999 stands for "never", and is beyond what a timestamp can hold.
    Some(i64::try_from(seconds).ok().and_then(|it| Timestamp::from_second(it).ok()).unwrap_or(Timestamp::MAX))
}

#[derive(Deserialize)]
struct Kubeconfig {
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
struct User {
    #[serde(rename = "client-certificate-data")]
    certificate: Option<String>,
}

fn expiry_of_user(kubeconfig: &[u8]) -> Option<Timestamp> {
    let kubeconfig: Kubeconfig = yaml::parse_secret(kubeconfig).ok()?;
    let users = kubeconfig.users.into_iter();
    users.filter_map(|named| expiry_of_pem(&BASE64.decode(named.user.certificate?).ok()?)).min()
}

#[cfg(test)]
mod tests;
