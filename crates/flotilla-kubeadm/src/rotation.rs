//! A kubelet.conf that names the certificate which the kubelet renews.

use flotilla_core::{BootstrapError, Machine};
use serde_json::{Value, json};

use crate::files::{KUBELET_CERTIFICATE, KUBELET_CONF};
use crate::missing::{self, Part};
use crate::phase::in_node;
use crate::yaml;

/// Writes kubelet.conf the way kubelet-finalize leaves it, without the restart: the running kubelet renews its
/// certificate anyway, and the next one finds it by this file.
///
/// Looked at again: by the time its node is registered, the kubelet has the certificate.
pub(crate) async fn ensure(machine: &dyn Machine) -> Result<(), BootstrapError> {
    if !missing::missing_files(machine).await?.contains(&Part::Rotation) {
        return Ok(());
    }
    let guest = machine.guest();
    let old = guest.read(KUBELET_CONF).await.map_err(in_node("read the kubelet's credentials", machine))?;
    let Some(old) = old else { return Ok(()) };
    let new = rotating(&old).map_err(|source| BootstrapError::Api {
        action: format!("read {KUBELET_CONF}"),
        source: source.into(),
    })?;
    let put = guest.write(KUBELET_CONF, 0o600, new.as_bytes()).await;
    put.map_err(in_node("write the kubelet's credentials", machine))
}

/// A kubeconfig whose users have the kubelet's own certificate file instead of a copy of the first certificate.
fn rotating(kubeconfig: &[u8]) -> Result<String, Box<serde_saphyr::Error>> {
    let mut config: Value = yaml::parse_secret(kubeconfig)?;
    let users = config.get_mut("users").and_then(Value::as_array_mut).into_iter().flatten();
    for user in users.filter_map(|named| named.get_mut("user")?.as_object_mut()) {
        user.remove("client-certificate-data");
        user.remove("client-key-data");
        user.insert("client-certificate".to_owned(), json!(KUBELET_CERTIFICATE));
        user.insert("client-key".to_owned(), json!(KUBELET_CERTIFICATE));
    }
    Ok(yaml::document(&config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_is_pointed_to_the_certificate_that_it_renews() {
        let old = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://10.213.0.2:6443
  name: demo
contexts:
- context:
    cluster: demo
    user: system:node:demo
  name: system:node:demo@demo
current-context: system:node:demo@demo
kind: Config
users:
- name: system:node:demo
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
";
        let new = rotating(old.as_bytes()).unwrap();
        insta::assert_snapshot!(new, @r"
        apiVersion: v1
        clusters:
        - cluster:
            certificate-authority-data: Q0E=
            server: https://10.213.0.2:6443
          name: demo
        contexts:
        - context:
            cluster: demo
            user: system:node:demo
          name: system:node:demo@demo
        current-context: system:node:demo@demo
        kind: Config
        users:
        - name: system:node:demo
          user:
            client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
            client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
        ");
        assert_eq!(rotating(new.as_bytes()).unwrap(), new);
    }
}
