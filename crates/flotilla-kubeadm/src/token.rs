//! Bootstrap tokens: short-lived secrets by which a node may ask for its credentials.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use serde_json::{Value, json};

/// How much longer a token lives than its join may take: joins of control planes wait for each other.
const BEYOND: Duration = Duration::from_mins(10);
/// Whatever limit the user has set: kubeadm's own tokens live as long.
const LONGEST: Duration = Duration::from_hours(24);
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// On a token's secret: the node that joins by it.
pub(crate) const JOINS: &str = "flotilla.dev/joins";

/// `abcdef.0123456789abcdef`: an identifier and a secret.
pub(crate) struct Token {
    id: String,
    secret: String,
    node: String,
    life: Duration,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Token {
    /// One for the join of that node, which may take this long.
    pub(crate) fn random(node: &str, limit: Duration) -> io::Result<Self> {
        let mut bytes = [0; 22];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        // 32 letters: each is as likely as any other.
        let letters: String = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
        let (id, secret) = letters.split_at(6);
        let life = limit.saturating_add(BEYOND).min(LONGEST);
        Ok(Self { id: id.to_owned(), secret: secret.to_owned(), node: node.to_owned(), life })
    }

    pub(crate) fn text(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    pub(crate) fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// As the API server looks for it.
    pub(crate) fn secret(&self) -> Value {
        let expiration = jiff::Timestamp::now() + self.life;
        json!({
            "metadata": {"name": self.secret_name(), "labels": {JOINS: self.node}},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": self.id,
                "token-secret": self.secret,
                "expiration": expiration.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(6);

    #[test]
    fn tokens_have_kubernetes_form_and_differ() {
        let (one, other) =
            (Token::random("demo-m02", LIMIT).unwrap(), Token::random("demo-m02", LIMIT).unwrap());
        assert_ne!(one.text(), other.text());
        let (id, secret) = one.text().split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!((id.len(), secret.len()), (6, 16));
        assert!(one.text().chars().all(|c| c == '.' || c.is_ascii_lowercase() || c.is_ascii_digit()));
    }

    #[test]
    fn a_token_is_good_for_a_join_and_outlives_it() {
        let (token, now) = (Token::random("demo-m02", LIMIT).unwrap(), jiff::Timestamp::now());
        let mut secret = token.secret();
        let expiration = secret["stringData"]["expiration"].take();
        let expiration: jiff::Timestamp = expiration.as_str().unwrap().parse().unwrap();
        let life = expiration.duration_since(now).as_secs();
        assert!((15 * 60..=16 * 60).contains(&life), "{life} s");
        let patient = Token::random("demo-m02", Duration::from_hours(1)).unwrap();
        assert_eq!(patient.life, Duration::from_mins(70));
        assert_eq!(Token::random("demo-m02", Duration::MAX).unwrap().life, LONGEST);
        let expected = json!({
            "metadata": {"name": format!("bootstrap-token-{}", token.id), "labels": {JOINS: "demo-m02"}},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": token.id,
                "token-secret": token.secret,
                "expiration": null,
                // Neither for signing the public cluster-info nor for any other group.
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            },
        });
        assert_eq!(secret, expected);
    }

    #[test]
    fn a_secret_is_not_printed() {
        let token = Token::random("demo-m02", LIMIT).unwrap();
        assert!(!format!("{token:?}").contains(&token.secret));
    }
}
