//! Texts that are written in other ways than kubectl writes them.

use super::*;

fn put_error(text: &str) -> String {
    let (error, after) = with_file(text, |file| {
        let error = file.put(&entry("demo")).unwrap_err();
        let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
        format!("{error}{cause}").replace(&*file.path().to_string_lossy(), "FILE")
    });
    assert_eq!(after, text);
    error
}

#[test]
fn empty_lists_are_filled_and_empty_again_afterwards() {
    let text = "clusters: [] # none\ncontexts:\nusers: null\ncurrent-context: \"\"\n";
    let filled = put(text);
    assert_snapshot!(filled, @"
    clusters: # none
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
    assert_snapshot!(remove(&filled, "demo"), @r#"
    clusters: [] # none
    contexts: []
    users: []
    current-context: ""
    "#);
}

#[test]
fn missing_keys_are_added_at_the_end() {
    assert_snapshot!(put("kind: Config\nusers:\n- name: x\nextra: 1"), @"
    kind: Config
    users:
    - name: x
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    extra: 1
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
fn quoted_names_and_keys_are_understood() {
    let text = "\
'clusters':
- {\"name\": \"demo\", 'cluster': {}}
\"contexts\":
- name: 'demo'
  context: {}
users:
-
  name: \"de\\x6do\"
current-context: 'it''s # other'  # \"this\"
";
    let text = put(text);
    assert_snapshot!(text, @r#"
    'clusters':
    - name: demo
      cluster:
        certificate-authority-data: Q0E=
        server: https://10.0.0.2:6443
    "contexts":
    - name: demo
      context:
        cluster: demo
        user: demo
    users:
    - name: demo
      user:
        client-certificate-data: Q0VSVA==
        client-key-data: S0VZ
    current-context: demo  # "this"
    "#);
}

#[test]
fn names_that_yaml_would_take_for_something_else_are_quoted() {
    for name in ["yes", "1234", "0x1f", "null", "1e3"] {
        let (state, text) = with_file("", |file| {
            file.put(&entry(name)).unwrap();
            file.state(&entry(name)).unwrap()
        });
        assert_eq!(state, State::Same { current: true });
        assert!(text.contains(&format!("current-context: \"{name}\"\n")), "{text}");
    }
}

#[test]
fn windows_line_ends_stay() {
    let text = put(&TWO.replace('\n', "\r\n"));
    assert_eq!(text, put(TWO).replace('\n', "\r\n"));
}

#[test]
fn a_missing_line_end_is_added() {
    assert_eq!(put(TWO.trim_end()), put(TWO));
}

#[test]
fn only_the_first_of_several_documents_changes() {
    let text = put("clusters: []\n---\nclusters: [other]\n");
    assert!(text.starts_with("clusters:\n- cluster:\n"), "{text}");
    assert!(text.ends_with("current-context: demo\n---\nclusters: [other]\n"), "{text}");
}

#[test]
fn json_stays_json() {
    let text = "{\n    \"kind\": \"Config\",\n    \"x\": {\"b\": 1.5, \"a\": [null, true]}\n}\n";
    assert_snapshot!(put(text), @r#"
    {
        "kind": "Config",
        "x": {
            "b": 1.5,
            "a": [
                null,
                true
            ]
        },
        "clusters": [
            {
                "cluster": {
                    "certificate-authority-data": "Q0E=",
                    "server": "https://10.0.0.2:6443"
                },
                "name": "demo"
            }
        ],
        "contexts": [
            {
                "context": {
                    "cluster": "demo",
                    "user": "demo"
                },
                "name": "demo"
            }
        ],
        "users": [
            {
                "name": "demo",
                "user": {
                    "client-certificate-data": "Q0VSVA==",
                    "client-key-data": "S0VZ"
                }
            }
        ],
        "current-context": "demo"
    }
    "#);
    assert_snapshot!(put("{\"kind\": \"Config\", \"users\": []}"), @r#"{"kind":"Config","users":[{"name":"demo","user":{"client-certificate-data":"Q0VSVA==","client-key-data":"S0VZ"}}],"clusters":[{"cluster":{"certificate-authority-data":"Q0E=","server":"https://10.0.0.2:6443"},"name":"demo"}],"contexts":[{"context":{"cluster":"demo","user":"demo"},"name":"demo"}],"current-context":"demo"}"#);
}

#[test]
fn flow_style_is_written_anew_with_all_values() {
    let text = "\
{kind: Config, x-list: [1, yes, ~, 'no', 2.50], # gone
 clusters: [{name: one, cluster: {server: 'https://one.example'}}], current-context: one}
";
    assert_snapshot!(put(text), @r#"
    kind: Config
    x-list:
    - 1
    - true
    - null
    - "no"
    - 2.5
    clusters:
    - name: one
      cluster:
        server: https://one.example
    - cluster:
        certificate-authority-data: Q0E=
        server: https://10.0.0.2:6443
      name: demo
    current-context: demo
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
    "#);
}

#[test]
fn an_anchor_that_is_needed_elsewhere_is_not_lost() {
    let text = "\
clusters:
- name: demo
  cluster: &shared
    server: https://one.example
- name: copy
  cluster: *shared
";
    assert_snapshot!(remove(text, "demo"), @"
    clusters:
    - name: copy
      cluster:
        server: https://one.example
    ");
}

#[test]
fn long_values_are_not_folded() {
    let entry = Entry { ca_pem: vec![b'x'; 3000], ..entry("demo") };
    let (_, text) = with_file("", |file| file.put(&entry).unwrap());
    let line = text.lines().find(|line| line.contains("certificate-authority-data: eHh4")).unwrap();
    assert_eq!(line.trim_start().len(), "certificate-authority-data: ".len() + 4000);
}

#[test]
fn what_is_not_yaml_is_refused_with_the_place() {
    assert_snapshot!(put_error("kind: Config\nusers:\n\t- name: x\n"), @"FILE is not valid YAML: line 3, column 2: tabs disallowed within this context (block indentation)");
    assert_snapshot!(put_error("kind: Config\nclusters: [\n"), @"FILE is not valid YAML: line 2, column 11: unclosed bracket '['");
    assert_snapshot!(put_error("kind: Config\nkind: Config\n"), @"FILE is not valid YAML: line 2, column 1: duplicate mapping key: kind not allowed here");
}

#[test]
fn what_is_no_kubeconfig_is_refused() {
    assert_snapshot!(put_error("- a\n- b\n"), @"FILE is not a kubeconfig: it is not a mapping");
    assert_snapshot!(put_error("users: everybody\n"), @"FILE is not a kubeconfig: users is not a list");
}
