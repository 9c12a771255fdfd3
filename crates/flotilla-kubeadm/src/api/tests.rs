use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::*;
use crate::files::ADMIN_CONF;
use flotilla_testkit::fake;

/// A certificate of nobody's for nobody, with a key in the form that kubeadm's have (SEC 1).
fn nobody() -> Credentials {
    let certificate = BASE64.encode(include_bytes!("../fixture/nobody.crt"));
    let key = BASE64.encode(include_bytes!("../fixture/nobody.key"));
    Credentials { path: ADMIN_CONF, authority: certificate.clone(), certificate, key }
}

#[tokio::test]
async fn a_silent_api_is_an_error_at_once() {
    // Nobody listens there: an address of the loopback network.
    let cluster = fake::cluster("127.213.0.0/24");
    let client = client(&cluster, &nobody(), QUICK).await.unwrap();
    let start = Instant::now();
    let error = serves(&client).await.unwrap_err();
    assert!(start.elapsed() < PATIENT);
    let line = in_one_line(&error);
    assert!(line.contains("refused"), "{line}");
}

#[tokio::test]
async fn credentials_that_are_none_are_refused_before_any_connection() {
    let broken = Credentials { key: BASE64.encode("not a key"), ..nobody() };
    let error = client(&fake::cluster("127.213.0.0/24"), &broken, QUICK).await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "cannot use the administrator's credentials");
}
