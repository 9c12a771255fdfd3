//! Reads administrators' credentials from kubeadm's files in a node.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flotilla_core::{ApiAccess, BootstrapError, Machine};
use serde::Deserialize;

use crate::files::{ADMIN_CONF, AUTHORITY, SUPER_ADMIN_CONF};
use crate::membership;
use crate::phase::in_node;
use crate::yaml;

/// One user of one cluster. The three texts are base64, as they are in the file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The file in the node, for programs that run there.
    pub path: &'static str,
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Credentials {
    // The key must not appear in any log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file of kubeadm's that has no credentials in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error("{path} is not a kubeconfig")]
    Malformed { path: &'static str, source: Box<serde_saphyr::Error> },
    #[error("{path} has no {what}")]
    Incomplete { path: &'static str, what: &'static str },
    #[error("the {what} in {path} is not base64")]
    Encoding { path: &'static str, what: &'static str, source: base64::DecodeError },
    #[error("there is no {SUPER_ADMIN_CONF} and no {ADMIN_CONF}")]
    Absent,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: FileCluster,
}

#[derive(Deserialize)]
struct FileCluster {
    #[serde(rename = "certificate-authority-data")]
    authority: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    user: FileUser,
}

#[derive(Deserialize)]
struct FileUser {
    #[serde(rename = "client-certificate-data")]
    certificate: Option<String>,
    #[serde(rename = "client-key-data")]
    key: Option<String>,
}

impl Credentials {
    /// Reads a kubeconfig of kubeadm's, which has one cluster and one user.
    pub(crate) fn parse(path: &'static str, content: &[u8]) -> Result<Self, CredentialsError> {
        let file: File =
            yaml::parse_secret(content).map_err(|source| CredentialsError::Malformed { path, source })?;
        let (cluster, user) = (file.clusters.into_iter().next(), file.users.into_iter().next());
        let (certificate, key) = user.map_or((None, None), |named| (named.user.certificate, named.user.key));
        let need = |what, text: Option<String>| text.ok_or(CredentialsError::Incomplete { path, what });
        Ok(Self {
            path,
            authority: need("certificate authority", cluster.and_then(|named| named.cluster.authority))?,
            certificate: need("client certificate", certificate)?,
            key: need("client key", key)?,
        })
    }

    /// The authority's certificate as text, as pods are given it.
    pub(crate) fn authority_pem(&self) -> Result<String, BootstrapError> {
        let access = self.access(String::new()).map_err(unreadable)?;
        Ok(String::from_utf8_lossy(&access.ca_pem).into_owned())
    }

    pub(crate) fn access(&self, server: String) -> Result<ApiAccess, CredentialsError> {
        let decode = |what, text: &str| {
            let encoding = |source| CredentialsError::Encoding { path: self.path, what, source };
            BASE64.decode(text).map_err(encoding)
        };
        Ok(ApiAccess {
            server,
            ca_pem: decode("certificate authority", &self.authority)?,
            client_cert_pem: decode("client certificate", &self.certificate)?,
            client_key_pem: decode("client key", &self.key)?,
        })
    }
}

/// The most privileged administrator whose file is in the node; none before kubeadm has created one.
pub(crate) async fn find(machine: &dyn Machine) -> Result<Option<Credentials>, BootstrapError> {
    for path in [SUPER_ADMIN_CONF, ADMIN_CONF] {
        if let Some(credentials) = read(machine, path).await? {
            return Ok(Some(credentials));
        }
    }
    Ok(None)
}

/// The same, or an error if there is none.
pub(crate) async fn require(machine: &dyn Machine) -> Result<Credentials, BootstrapError> {
    find(machine).await?.ok_or_else(|| unreadable(CredentialsError::Absent))
}

pub(crate) async fn read(
    machine: &dyn Machine,
    path: &'static str,
) -> Result<Option<Credentials>, BootstrapError> {
    let content = machine.guest().read(path).await.map_err(in_node("read credentials", machine))?;
    content.map(|content| Credentials::parse(path, &content)).transpose().map_err(unreadable)
}

/// The administrator's access from the host. An error before the machine is a member: kubeadm may still be writing
/// the file.
pub(crate) async fn access(server: &str, machine: &dyn Machine) -> Result<Option<ApiAccess>, BootstrapError> {
    if !membership::has_joined(machine).await? {
        return Ok(None);
    }
    let credentials = read(machine, ADMIN_CONF).await?;
    credentials.map(|credentials| credentials.access(server.to_owned())).transpose().map_err(unreadable)
}

/// The certificate of the cluster's authority, which every node has: see [`ApiAccess::ca_pem`].
pub(crate) async fn authority(machine: &dyn Machine) -> Option<Vec<u8>> {
    machine.guest().read(AUTHORITY).await.ok().flatten()
}

fn unreadable(error: CredentialsError) -> BootstrapError {
    BootstrapError::Api { action: "read the administrator's credentials".to_owned(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_core::Membership;
    use flotilla_testkit::fake::FakeMachine;

    const FILE: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://control-plane.flotilla.internal:6443
  name: demo
contexts:
- context:
    cluster: demo
    user: kubernetes-super-admin
  name: kubernetes-super-admin@demo
current-context: kubernetes-super-admin@demo
kind: Config
users:
- name: kubernetes-super-admin
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
";

    fn parse(text: &str) -> Result<Credentials, CredentialsError> {
        Credentials::parse(SUPER_ADMIN_CONF, text.as_bytes())
    }

    #[test]
    fn a_file_of_kubeadms_gives_access() {
        let access = parse(FILE).unwrap().access("https://10.213.0.254:6443".to_owned()).unwrap();
        assert_eq!(access.server, "https://10.213.0.254:6443");
        assert_eq!(access.ca_pem, b"CA");
        assert_eq!(access.client_cert_pem, b"CERT");
        assert_eq!(access.client_key_pem, b"KEY");
    }

    #[test]
    fn what_is_missing_is_named() {
        let without_key = FILE.replace(
            "    client-key-data: S0VZ
",
            "",
        );
        assert_eq!(
            parse(&without_key).unwrap_err().to_string(),
            "/etc/kubernetes/super-admin.conf has no client key"
        );
        let error = parse("kind: Config\n").unwrap_err().to_string();
        assert_eq!(error, "/etc/kubernetes/super-admin.conf has no certificate authority");
    }

    #[test]
    fn a_half_written_file_is_refused() {
        for length in [0, 20, 60, 130] {
            assert!(parse(&FILE[..length]).is_err(), "the first {length} bytes");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        let error = parse(&FILE.replace("client-key-data: ", "client-key-data: [SECRET, ")).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!cause.contains("SECRET"), "{cause}");
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        let error = parse(&FILE.replace("S0VZ", "'***'")).unwrap().access(String::new()).unwrap_err();
        assert_eq!(error.to_string(), "the client key in /etc/kubernetes/super-admin.conf is not base64");
    }

    #[test]
    fn no_key_is_printed() {
        assert_eq!(
            format!("{:?}", parse(FILE).unwrap()),
            "Credentials { path: \"/etc/kubernetes/super-admin.conf\", .. }"
        );
    }

    #[tokio::test]
    async fn there_is_no_access_before_the_first_answer() {
        let server = "https://127.0.0.1:40001";
        let unfinished = FakeMachine::new(&[(ADMIN_CONF, b"clusters:\n- clus")], &[]);
        assert_eq!(access(server, &unfinished).await.unwrap(), None);
        let finished = FakeMachine::new(&[(ADMIN_CONF, FILE.as_bytes())], &[]);
        let finished = finished.with_membership(Membership::Member);
        let access = access(server, &finished).await.unwrap().unwrap();
        assert_eq!(access.server, server, "it leads where it was said, whatever the file in the node says");
    }

    #[tokio::test]
    async fn the_mightier_administrator_is_preferred() {
        let both =
            FakeMachine::new(&[(ADMIN_CONF, FILE.as_bytes()), (SUPER_ADMIN_CONF, FILE.as_bytes())], &[]);
        assert_eq!(require(&both).await.unwrap().path, SUPER_ADMIN_CONF);
        let one = FakeMachine::new(&[(ADMIN_CONF, FILE.as_bytes())], &[]);
        assert_eq!(require(&one).await.unwrap().path, ADMIN_CONF);
        assert!(require(&FakeMachine::new(&[], &[])).await.is_err());
    }
}
