use flotilla_core::explain::one_line;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::*;
use crate::fake_api::{FakeApi, Fault};
use crate::files::ADMIN_CONF;
use flotilla_testkit::{fake, own_network};

/// A certificate of nobody's for nobody, with a key in the form that kubeadm's have (SEC 1).
fn nobody() -> Credentials {
    let certificate = BASE64.encode(include_bytes!("../fixture/nobody.crt"));
    let key = BASE64.encode(include_bytes!("../fixture/nobody.key"));
    Credentials { path: ADMIN_CONF, authority: certificate.clone(), certificate, key }
}

#[tokio::test]
async fn a_silent_api_is_an_error_at_once() {
    // An address of the loopback network, where nobody listens in a network of our own.
    own_network();
    let cluster = fake::cluster("127.213.0.0/24");
    let client = client(&cluster, &nobody(), PATIENT).await.unwrap();
    // Nothing is waited for: it is not the limit that is the error.
    let error = serves(&client).await.unwrap_err();
    let line = one_line(&error);
    assert!(line.contains("refused"), "{line}");
    assert!(is_passing(&error), "{error:?}");
}

#[tokio::test]
async fn credentials_that_are_none_are_refused_before_any_connection() {
    let broken = Credentials { key: BASE64.encode("not a key"), ..nobody() };
    let error = client(&fake::cluster("127.213.0.0/24"), &broken, QUICK).await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "cannot use the administrator's credentials");
}

const NAMESPACE: &str = "/api/v1/namespaces/kube-system";

fn with_namespace() -> FakeApi {
    FakeApi::new(&[(NAMESPACE, json!({"metadata": {"name": SYSTEM}}))])
}

async fn ask(api: &FakeApi) -> Result<bool, BootstrapError> {
    let (client, never): (_, Cancelled) = (api.client(), Cancelled::new(Arc::new(|| false)));
    insist("look", &never, || serves(&client)).await
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_until_there_is_an_answer() {
    let api = with_namespace();
    for fault in [
        Fault::Unheard,
        Fault::Unanswered,
        Fault::Refused(429, "too many requests"),
        Fault::Refused(500, "etcdserver: leader changed"),
        Fault::Refused(503, "etcdserver: no leader"),
        Fault::Refused(504, "etcdserver: request timed out"),
    ] {
        api.fail("GET", 5, fault);
    }
    assert!(ask(&api).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_will_not_change_is_the_last() {
    for code in [400, 401, 403, 422] {
        let api = with_namespace();
        api.fail("GET", 1, Fault::Refused(code, "no"));
        assert_eq!(ask(&api).await.unwrap_err().to_string(), "cannot look");
        assert!(ask(&api).await.unwrap(), "{code} was one refusal, and there was one question");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_hears_is_an_error_in_the_end() {
    let api = with_namespace();
    api.fail("GET", usize::MAX, Fault::Unheard);
    let start = tokio::time::Instant::now();
    let BootstrapError::Api { source, .. } = ask(&api).await.unwrap_err() else { panic!("of another kind") };
    assert!(one_line(source.as_ref()).contains("connection refused"), "{source}");
    assert!((30..60).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn while_a_cluster_starts_an_answer_may_take_longer_and_no_longer_than_the_user_waits() {
    for (limit, ends) in [(600, 90..120), (20, 20..30)] {
        let (api, start) = (with_namespace(), tokio::time::Instant::now());
        api.fail("GET", usize::MAX, Fault::Unheard);
        let limits = Cancelled::new(Arc::new(|| false)).within(Duration::from_secs(limit));
        let client = api.client();
        insist("look", &limits, || serves(&client)).await.unwrap_err();
        assert!(ends.contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_need_not_wait_for_an_answer() {
    let api = with_namespace();
    api.fail("GET", usize::MAX, Fault::Unheard);
    let (client, always): (_, Cancelled) = (api.client(), Cancelled::new(Arc::new(|| true)));
    let error = insist("look", &always, || serves(&client)).await.unwrap_err();
    assert!(matches!(error, BootstrapError::Interrupted), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_slow_to_answer_answers_and_one_that_never_does_is_silent() {
    let never = Cancelled::new(Arc::new(|| false));
    let api = FakeApi::new(&[(NAMESPACE, json!({"metadata": {}}))]);
    api.fail(&format!("GET {NAMESPACE}"), 50, Fault::Refused(503, "busy"));
    let limit = Duration::from_secs(30);
    assert!(answers(&api.client(), limit, &never).await.unwrap());
    api.fail(&format!("GET {NAMESPACE}"), usize::MAX, Fault::Unheard);
    assert!(!answers(&api.client(), limit, &never).await.unwrap());
    let cancelled = Cancelled::new(Arc::new(|| true));
    let ended = answers(&api.client(), limit, &cancelled).await;
    assert!(matches!(ended, Err(BootstrapError::Interrupted)), "{ended:?}");
}
