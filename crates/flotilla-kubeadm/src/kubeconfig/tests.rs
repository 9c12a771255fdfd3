//! What goes in and what comes out. The file itself is in `files`, several files in `several`, whose an item is in
//! `ownership`, forms of text that are not kubectl's in `forms`, texts that nobody wrote in `properties`.

mod files;
mod forms;
mod ownership;
mod properties;
mod several;

use super::*;
use insta::assert_snapshot;

/// kubectl's own form, with two clusters and the marks of a user.
const TWO: &str = "\
# work things, ask Ada
apiVersion: v1
clusters:
- cluster:
    server: https://one.example   # the old one
  name: one
# do not touch
- cluster: {server: 'https://two.example'}
  name: \"two\"

contexts:
- context:
    cluster: one
    user: one
  name: one
- context:
    cluster: two
    user: two
  name: two
current-context: two # mostly
kind: Config
preferences: {}
users:
- name: one
  user:
    token: abc
- name: two
  user:
    exec:
      command: login
      installHint: |
        # not a comment
        - not an item
# the end
";

fn entry(name: &str) -> Entry {
    Entry {
        name: name.to_owned(),
        server: "https://10.0.0.2:6443".to_owned(),
        ca_pem: b"CA".to_vec(),
        client_cert_pem: b"CERT".to_vec(),
        client_key_pem: b"KEY".to_vec(),
        namespace: None,
    }
}

fn with_file<T>(text: &str, act: impl FnOnce(&KubeconfigFile) -> T) -> (T, String) {
    let dir = flotilla_testkit::directory();
    let path = dir.path().join("config");
    fs::write(&path, text).unwrap();
    let outcome = act(&KubeconfigFile::open(&path));
    (outcome, fs::read_to_string(&path).unwrap())
}

/// Puts an entry in that is not the current one.
fn put_beside(file: &KubeconfigFile, entry: &Entry) -> Result<Changed, KubeconfigError> {
    file.change(|config| change::put(config, entry, false).map_err(|source| file.malformed(source)))
}

/// Takes out all that has the name, whoever wrote it.
fn take_out(file: &KubeconfigFile, name: &str) -> Result<Changed, KubeconfigError> {
    file.change(|config| {
        let changes = change::remove(config, name, |_, _| true).map_err(|source| file.malformed(source))?;
        Ok(changes.into_iter().chain(change::unset_context(config, name)).collect())
    })
}

/// A file as all there is of a user's kubeconfig.
fn alone(file: &KubeconfigFile) -> Kubeconfigs {
    Kubeconfigs::of(Some(file.path().as_os_str()), Path::new("/home/ada"))
}

/// The text with the entry `demo` in it and current; a second time changes nothing.
fn put(text: &str) -> String {
    let ((), text) = with_file(text, |file| {
        assert_eq!(file.put(&entry("demo")).unwrap(), Changed::Yes);
        assert_eq!(file.state(&entry("demo")).unwrap(), State::Same { current: true });
        assert_eq!(file.put(&entry("demo")).unwrap(), Changed::No);
    });
    text
}

fn remove(text: &str, name: &str) -> String {
    let ((), text) = with_file(text, |file| {
        assert_eq!(take_out(file, name).unwrap(), Changed::Yes);
        assert_eq!(file.state(&entry(name)).unwrap(), State::Absent);
        assert_eq!(take_out(file, name).unwrap(), Changed::No);
    });
    text
}

#[test]
fn a_file_leads_to_a_cluster_whoever_the_user_is() {
    let other_user = Entry { client_cert_pem: b"ANOTHER".to_vec(), ..entry("demo") };
    let other_cluster = Entry { ca_pem: b"ANOTHER".to_vec(), ..entry("demo") };
    let known = [Identity::of(&entry("demo"))];
    let (led, _) = with_file(&put(""), |file| {
        let entries = [entry("demo"), other_user, other_cluster, entry("other")];
        entries.map(|entry| alone(file).leads_to(&entry, &known).unwrap())
    });
    assert_eq!(led, [true, true, false, false]);
}

#[test]
fn an_empty_file_becomes_a_kubeconfig() {
    assert_snapshot!(put(""), @"
    apiVersion: v1
    kind: Config
    clusters:
    - cluster:
        certificate-authority-data: Q0E=
        server: https://10.0.0.2:6443
      name: demo
    contexts:
    - context:
        cluster: demo
        user: demo
      name: demo
    users:
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    current-context: demo
    ");
    assert_eq!(put("---\n"), format!("---\n{}", put("")));
}

#[test]
fn a_file_of_comments_keeps_them() {
    let text = put("# mine\n\n# yours");
    assert_eq!(text, format!("# mine\n\n# yours\n{}", put("")));
}

#[test]
fn others_stay_as_they_are() {
    assert_snapshot!(put(TWO), @r#"
    # work things, ask Ada
    apiVersion: v1
    clusters:
    - cluster:
        server: https://one.example   # the old one
      name: one
    # do not touch
    - cluster: {server: 'https://two.example'}
      name: "two"
    - cluster:
        certificate-authority-data: Q0E=
        server: https://10.0.0.2:6443
      name: demo

    contexts:
    - context:
        cluster: one
        user: one
      name: one
    - context:
        cluster: two
        user: two
      name: two
    - context:
        cluster: demo
        user: demo
      name: demo
    current-context: demo # mostly
    kind: Config
    preferences: {}
    users:
    - name: one
      user:
        token: abc
    - name: two
      user:
        exec:
          command: login
          installHint: |
            # not a comment
            - not an item
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    # the end
    "#);
}

#[test]
fn what_was_put_comes_out_again_without_a_trace() {
    let ((), text) = with_file(TWO, |file| {
        put_beside(file, &entry("demo")).unwrap();
        take_out(file, "demo").unwrap();
    });
    assert_eq!(text, TWO);
}

#[test]
fn the_first_is_removed() {
    assert_snapshot!(remove(TWO, "one"), @r#"
    # work things, ask Ada
    apiVersion: v1
    clusters:
    # do not touch
    - cluster: {server: 'https://two.example'}
      name: "two"

    contexts:
    - context:
        cluster: two
        user: two
      name: two
    current-context: two # mostly
    kind: Config
    preferences: {}
    users:
    - name: two
      user:
        exec:
          command: login
          installHint: |
            # not a comment
            - not an item
    # the end
    "#);
}

#[test]
fn the_last_is_removed_and_with_it_the_current_context() {
    assert_snapshot!(remove(TWO, "two"), @r#"
    # work things, ask Ada
    apiVersion: v1
    clusters:
    - cluster:
        server: https://one.example   # the old one
      name: one
    # do not touch

    contexts:
    - context:
        cluster: one
        user: one
      name: one
    current-context: "" # mostly
    kind: Config
    preferences: {}
    users:
    - name: one
      user:
        token: abc
    # the end
    "#);
}

#[test]
fn one_in_the_middle_is_removed() {
    let ((), text) = with_file(TWO, |file| {
        for name in ["demo", "last"] {
            put_beside(file, &entry(name)).unwrap();
        }
        take_out(file, "demo").unwrap();
    });
    let (_, without_the_middle) = with_file(TWO, |file| put_beside(file, &entry("last")).unwrap());
    assert_eq!(text, without_the_middle);
}

#[test]
fn lists_are_indented_as_the_person_does() {
    let text = "\
clusters:
  - cluster:
      server: https://one.example
    name: one
contexts: []
users:
  # my own
  - name: one
    user: {}
";
    assert_snapshot!(put(text), @"
    clusters:
      - cluster:
          server: https://one.example
        name: one
      - cluster:
          certificate-authority-data: Q0E=
          server: https://10.0.0.2:6443
        name: demo
    contexts:
      - context:
          cluster: demo
          user: demo
        name: demo
    users:
      # my own
      - name: one
        user: {}
      - name: demo
        user:
          client-certificate-data: Q0VSVA==
          client-key-data: S0VZ
    current-context: demo
    ");
}

#[test]
fn an_entry_is_replaced_where_it_is() {
    let text = put("").replace("server: https://10.0.0.2:6443", "server: https://old:6443");
    let text = text.replace("contexts:", "- cluster: {server: 'https://x'} # x\n  name: x\ncontexts:");
    assert_snapshot!(put(&text), @"
    apiVersion: v1
    kind: Config
    clusters:
    - cluster:
        certificate-authority-data: Q0E=
        server: https://10.0.0.2:6443
      name: demo
    - cluster: {server: 'https://x'} # x
      name: x
    contexts:
    - context:
        cluster: demo
        user: demo
      name: demo
    users:
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    current-context: demo
    ");
}

#[test]
fn what_the_person_added_stays_and_what_contradicts_goes() {
    let text = "\
clusters:
- name: demo
  cluster:
    proxy-url: http://proxy
    insecure-skip-tls-verify: true
    server: https://old
contexts:
- name: demo
  context: {cluster: demo, namespace: shop, user: demo}
users:
- name: demo
  user: {token: abc}
";
    assert_snapshot!(put(text), @"
    clusters:
    - name: demo
      cluster:
        proxy-url: http://proxy
        server: https://10.0.0.2:6443
        certificate-authority-data: Q0E=
    contexts:
    - name: demo
      context: {cluster: demo, namespace: shop, user: demo}
    users:
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    current-context: demo
    ");
}

#[test]
fn a_namespace_is_set_if_the_entry_has_one() {
    let entry = Entry { namespace: Some("shop".to_owned()), ..entry("demo") };
    let (state, text) = with_file(&put(""), |file| {
        assert_eq!(file.state(&entry).unwrap(), State::Different);
        put_beside(file, &entry).unwrap();
        file.state(&entry).unwrap()
    });
    assert_eq!(state, State::Same { current: true });
    assert!(text.contains("    namespace: shop\n"), "{text}");
}

#[test]
fn a_name_that_is_there_twice_is_there_once() {
    let twice = "users:\n- name: demo\n  user: {}\n- name: x\n- name: demo\n";
    assert_snapshot!(put(twice), @"
    users:
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    - name: x
    clusters:
    - cluster:
        certificate-authority-data: Q0E=
        server: https://10.0.0.2:6443
      name: demo
    contexts:
    - context:
        cluster: demo
        user: demo
      name: demo
    current-context: demo
    ");
}

#[test]
fn the_state_tells_absent_from_different() {
    let state = |text: &str| with_file(text, |file| file.state(&entry("demo")).unwrap()).0;
    assert_eq!(state(""), State::Absent);
    assert_eq!(state(TWO), State::Absent);
    assert_eq!(state("users:\n- name: demo\n"), State::Different);
    assert_eq!(state(&put(TWO)), State::Same { current: true });
    assert_eq!(state(&put(TWO).replace("context: demo", "context: two")), State::Same { current: false });
    assert_eq!(state(&put(TWO).replace("10.0.0.2", "10.0.0.3")), State::Different);
}

#[test]
fn a_log_does_not_show_the_key() {
    let text = format!("{:?}", entry("demo"));
    assert_eq!(text, r#"Entry { name: "demo", server: "https://10.0.0.2:6443", namespace: None, .. }"#);
}
