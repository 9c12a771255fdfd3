//! Certificate authorities that the user brings: checked before anything is created, then put where kubeadm finds them.

use flotilla_core::cluster::Cluster;
use flotilla_core::{Authorities, BootstrapError, Machine};
use jiff::Timestamp;
use rustls::SignatureAlgorithm;
use rustls::crypto::ring::sign::any_supported_type;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::BasicConstraints;

use crate::phase::in_node;

const PKI: &str = "/etc/kubernetes/pki";

/// Why a cluster cannot have these; none if it can. kubeadm finds most of it, too, but minutes later.
pub(crate) fn problem(authorities: &Authorities, now: Timestamp) -> Option<String> {
    let file = |name: &str| authorities.0.get(name).map(String::as_str);
    for (public, private) in Authorities::PAIRS {
        match (file(public), file(private)) {
            (Some(certificate), Some(key)) => {
                if let Some(problem) = problem_of_pair((public, certificate), (private, key), now) {
                    return Some(problem);
                }
            }
            (None, None) if public != Authorities::PAIRS[0].0 => {}
            (None, _) => return Some(format!("there is no {public}")),
            (_, None) => return Some(format!("there is no {private}")),
        }
    }
    let (public, private) = Authorities::SIGNER;
    match (file(public), file(private)) {
        (Some(_), Some(key)) => key_problem(private, key),
        (None, None) => None,
        (None, _) => Some(format!("there is no {public}")),
        (_, None) => Some(format!("there is no {private}")),
    }
}

fn problem_of_pair(
    (public, certificate): (&str, &str),
    (private, key): (&str, &str),
    now: Timestamp,
) -> Option<String> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok();
    let Some(certificate) = der.and_then(|der| Certificate::from_der(&der).ok()) else {
        return Some(format!("{public} is no certificate in PEM"));
    };
    let content = certificate.tbs_certificate();
    let constraints = content.get_extension::<BasicConstraints>().ok().flatten();
    if !constraints.is_some_and(|(_, constraints)| constraints.ca) {
        return Some(format!("{public} is no certificate of an authority (CA:TRUE)"));
    }
    let seconds = |time: x509_cert::time::Time| i64::try_from(time.to_unix_duration().as_secs());
    let validity = content.validity();
    if seconds(validity.not_before).is_ok_and(|begins| begins > now.as_second()) {
        return Some(format!("{public} is not valid yet"));
    }
    if seconds(validity.not_after).is_ok_and(|ends| ends <= now.as_second()) {
        return Some(format!("{public} has expired"));
    }
    if let Some(problem) = key_problem(private, key) {
        return Some(problem);
    }
    let key =
        PrivateKeyDer::from_pem_slice(key.as_bytes()).ok().and_then(|key| any_supported_type(&key).ok());
    let of_key = key.and_then(|key| key.public_key().map(|key| key.to_vec()));
    let of_certificate = content.subject_public_key_info().to_der().ok();
    (of_key != of_certificate).then(|| format!("{private} is not the key of {public}"))
}

/// Kubernetes signs with RSA and with ECDSA.
fn key_problem(name: &str, pem: &str) -> Option<String> {
    if pem.contains("ENCRYPTED") {
        return Some(format!("{name} is encrypted"));
    }
    let Ok(key) = PrivateKeyDer::from_pem_slice(pem.as_bytes()) else {
        return Some(format!("{name} is no private key in PEM"));
    };
    let is_known = any_supported_type(&key)
        .is_ok_and(|key| matches!(key.algorithm(), SignatureAlgorithm::RSA | SignatureAlgorithm::ECDSA));
    (!is_known).then(|| {
        format!("{name} is neither an RSA key of 2048 to 8192 bits nor an ECDSA key on P-256 or P-384")
    })
}

/// Writes the user's authorities into a machine in which kubeadm is about to make them: it keeps what exists.
pub(crate) async fn put(cluster: &Cluster, machine: &dyn Machine) -> Result<(), BootstrapError> {
    for (name, content) in cluster.allocations.authorities.iter().flat_map(|authorities| &authorities.0) {
        let mode = if Authorities::is_secret(name) { 0o600 } else { 0o644 };
        let put = machine.guest().write(&format!("{PKI}/{name}"), mode, content.as_bytes()).await;
        put.map_err(in_node("write the user's certificate authorities", machine))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
