//! What a cluster did not write is left alone, whatever its name.

use super::*;

/// A user's own cluster that has the name of ours.
const PROD: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: demo
  cluster: {server: 'https://prod.example', certificate-authority-data: T1RIRVI=}
contexts:
- name: demo
  context: {cluster: demo, user: demo}
- name: work
  context: {cluster: work, user: demo}
current-context: demo
users:
- name: demo
  user: {token: secret}
";

fn ours() -> [Identity; 1] {
    [Identity::of(&entry("demo"))]
}

/// Puts ours, deselects it and removes it; all that is said, and the text in the end.
fn try_all(text: &str) -> (Vec<String>, String) {
    with_file(text, |file| {
        let all = alone(file);
        let put = all.put(&entry("demo"), &ours()).unwrap_err().to_string();
        let deselected = all.unset_context("demo", &ours()).unwrap();
        let removed = all.remove("demo", &ours()).unwrap();
        assert_eq!(all.state(&entry("demo"), &ours()).unwrap(), State::Taken);
        assert!(!all.leads_to(&entry("demo"), &ours()).unwrap());
        let place = file.path().display().to_string();
        vec![put.replace(&place, "FILE"), format!("{deselected:?}"), format!("{removed:?}")]
    })
}

/// Text without ours, however often it is tried.
fn removed(text: &str, known: &[Identity]) -> String {
    let ((), text) = with_file(text, |file| {
        alone(file).remove("demo", known).unwrap();
        assert_eq!(alone(file).remove("demo", known).unwrap(), Changed::No);
    });
    text
}

#[test]
fn a_persons_own_cluster_of_that_name_stays() {
    let (told, text) = try_all(PROD);
    assert_eq!(told, ["FILE has a cluster demo that this cluster did not write", "No", "No"]);
    assert_eq!(text, PROD);
    // Nobody knows what a cluster was that never was: then nothing is anybody's.
    assert_eq!(removed(PROD, &[]), PROD);
    assert_eq!(removed(&put(TWO), &[]), put(TWO));
}

#[test]
fn the_same_address_is_no_proof() {
    let text = PROD.replace("https://prod.example", "https://10.0.0.2:6443");
    assert_eq!(try_all(&text).1, text);
}

#[test]
fn a_cluster_without_an_authority_is_somebody_elses() {
    for cluster in ["{}", "{server: 'https://10.0.0.2:6443', insecure-skip-tls-verify: true}", "null"] {
        let text =
            PROD.replace("{server: 'https://prod.example', certificate-authority-data: T1RIRVI=}", cluster);
        assert_eq!(try_all(&text).1, text);
    }
}

#[test]
fn one_item_of_the_name_is_enough_to_be_taken() {
    for (text, what) in [
        ("users:\n- name: demo\n  user: {token: secret}\n", "user"),
        ("contexts:\n- name: demo\n  context: {cluster: other, user: other}\n", "context"),
        ("contexts:\n- name: demo\n  context: {cluster: demo, user: demo}\n", "context"),
        ("clusters:\n- name: demo\n", "cluster"),
    ] {
        let (told, after) = try_all(text);
        assert_eq!(told[0], format!("FILE has a {what} demo that this cluster did not write"));
        assert_eq!(after, text);
    }
}

#[test]
fn a_user_that_a_context_of_others_needs_stays() {
    let shared = put(TWO).replace("client-certificate-data: Q0VSVA==", "client-certificate-data: T1RIRVI=");
    assert!(!removed(&shared, &ours()).contains("demo"), "renewed credentials are ours through our context");
    let shared = shared.replace("    cluster: one\n    user: one\n", "    cluster: one\n    user: demo\n");
    let after = removed(&shared, &ours());
    assert!(after.contains("- name: demo\n  user:\n    client-certificate-data: T1RIRVI="), "{after}");
    assert!(!after.contains("10.0.0.2"), "{after}");
}

#[test]
fn an_entry_of_ours_that_was_changed_is_still_ours() {
    let moved = put(TWO).replace("https://10.0.0.2:6443", "https://tunnel.example:1");
    let (state, text) = with_file(&moved, |file| {
        let all = alone(file);
        let state = all.state(&entry("demo"), &ours()).unwrap();
        all.put(&entry("demo"), &ours()).unwrap();
        state
    });
    assert_eq!((state, text), (State::Different, put(TWO)));
    assert!(!removed(&moved, &ours()).contains("demo"));
}

#[test]
fn what_is_left_of_an_entry_of_ours_is_still_ours() {
    let whole = put("");
    for (list, next) in [("clusters:", "contexts:"), ("contexts:", "users:"), ("users:", "current-context:")]
    {
        let (start, end) = (whole.find(list).unwrap(), whole.find(next).unwrap());
        let text = format!("{}{}", &whole[..start], &whole[end..]);
        let after = removed(&text, &ours());
        assert!(!after.contains("name: demo"), "without {list}\n{after}");
        let (_, repaired) = with_file(&text, |file| alone(file).put(&entry("demo"), &ours()).unwrap());
        let (state, _) = with_file(&repaired, |file| file.state(&entry("demo")).unwrap());
        assert_eq!(state, State::Same { current: true });
    }
}

#[test]
fn a_cluster_that_was_made_again_replaces_what_it_was() {
    let again = Entry {
        server: "https://10.0.9.2:6443".to_owned(),
        ca_pem: b"NEW".to_vec(),
        client_cert_pem: b"NEW".to_vec(),
        ..entry("demo")
    };
    let (told, text) = with_file(&put(TWO), |file| {
        let all = alone(file);
        let told = all.put(&again, &[Identity::of(&again)]).unwrap_err().to_string();
        let known = [Identity::of(&again), file.identity("demo").unwrap().unwrap()];
        all.put(&again, &known).unwrap();
        told
    });
    assert!(told.ends_with("has a cluster demo that this cluster did not write"), "{told}");
    assert!(text.contains("https://10.0.9.2:6443") && !text.contains("10.0.0.2"), "{text}");
}

#[test]
fn an_authority_alone_proves_it() {
    let after = removed(&put(TWO), &[Identity::of_authority(b"CA\n".to_vec())]);
    assert!(!after.contains("name: demo"), "{after}");
    assert!(!after.contains("current-context: demo"), "{after}");
}

#[test]
fn extensions_of_others_stay() {
    let text = put("").replace("      name: demo\n", "");
    let text = text.replace(
        "    client-key-data: S0VZ\n",
        "    client-key-data: S0VZ\n    extensions:\n    - {name: mine, extension: {a: 1}}\n",
    );
    let newer = Entry { client_cert_pem: b"NEWER".to_vec(), ..entry("demo") };
    let (_, text) = with_file(&text, |file| alone(file).put(&newer, &ours()).unwrap());
    assert!(text.contains("extensions:\n    - name: mine\n      extension:\n        a: 1\n"), "{text}");
}

#[test]
fn another_current_context_of_ours_or_of_others_is_not_deselected() {
    let others = put(TWO).replace("current-context: demo", "current-context: two");
    let (changed, _) = with_file(&others, |file| alone(file).unset_context("demo", &ours()).unwrap());
    assert_eq!(changed, Changed::No);
    let (current, text) = with_file(&put(TWO), |file| {
        assert!(alone(file).is_current("demo", &ours()).unwrap());
        assert_eq!(alone(file).unset_context("demo", &ours()).unwrap(), Changed::Yes);
        alone(file).is_current("demo", &ours()).unwrap()
    });
    assert!(!current);
    assert_eq!(text, put(TWO).replace("current-context: demo", "current-context: \"\""));
}
