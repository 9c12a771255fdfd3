use std::fs;

use insta::assert_snapshot;

use super::{home, may_be_root};

#[test]
fn an_unknown_version_names_those_that_are_known() {
    let home = home();
    assert_snapshot!(home.run(["bundle", "build", "--kubernetes-version", "v9.9.9"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_UNKNOWN_VERSION]: Kubernetes v9.9.9 is not available: choose v1.37.1, v1.36.4 or v1.35.8
    hint: build another version from its source: `flotilla bundle build --kubernetes-source PATH`
    ");
    assert!(home.files().is_empty());
}

#[test]
fn an_unknown_version_for_scripts_is_one_event() {
    let home = home();
    let ran = home.run(["bundle", "build", "--kubernetes-version", "9.9.9", "-o", "json"]);
    let events = ran.events();
    assert_eq!(events.len(), 1);
    assert!(events[0]["data"].as_object().unwrap().values().all(serde_json::Value::is_string), "{ran}");
    assert_snapshot!(ran, @r#"
    status: 14
    ----- stdout -----
    {"data":{"advice":"build another version from its source: `flotilla bundle build --kubernetes-source PATH`","exitcode":"14","issues":"","message":"Kubernetes v9.9.9 is not available: choose v1.37.1, v1.36.4 or v1.35.8","name":"BUNDLE_UNKNOWN_VERSION","url":""},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.error"}
    ----- stderr -----
    "#);
    assert!(home.files().is_empty());
}

#[test]
fn everything_that_is_missing_is_told_at_once() {
    if !may_be_root() {
        return;
    }
    let home = home().with_env("PATH", "/nowhere");
    assert_snapshot!(home.run(["bundle", "build"]), @"
    status: 39
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_NO_SOURCE]: source 'build' cannot be used on this host: `go` is not in the PATH; `gcc` is not in the PATH; `apt-get` is not in the PATH; `dpkg-deb` is not in the PATH
    hint: install Go: https://go.dev/dl
    hint: install a C compiler: apt-get install gcc libc6-dev
    hint: build on Debian, Ubuntu or another host with apt
    hint: or import a bundle from another machine: flotilla bundle export, flotilla bundle import
    ");
    assert!(home.files().is_empty());
}

#[test]
fn everything_that_is_missing_is_told_to_scripts() {
    if !may_be_root() {
        return;
    }
    let home = home().with_env("PATH", "/nowhere");
    assert_snapshot!(home.run(["bundle", "build", "-o", "json"]), @r#"
    status: 39
    ----- stdout -----
    {"data":{"advice":"install Go: https://go.dev/dl\ninstall a C compiler: apt-get install gcc libc6-dev\nbuild on Debian, Ubuntu or another host with apt\nor import a bundle from another machine: flotilla bundle export, flotilla bundle import","exitcode":"39","issues":"","message":"source 'build' cannot be used on this host: `go` is not in the PATH; `gcc` is not in the PATH; `apt-get` is not in the PATH; `dpkg-deb` is not in the PATH","name":"BUNDLE_NO_SOURCE","url":""},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.error"}
    ----- stderr -----
    "#);
}

#[test]
fn a_state_folder_that_cannot_be_made_is_told_first() {
    let home = home();
    fs::write(home.path().join("file"), "in the way").unwrap();
    let below = home.path().join("file/flotilla");
    let home = home.with_env("FLOTILLA_HOME", below).with_env("PATH", "/nowhere");
    assert_snapshot!(home.run(["bundle", "build"]), @"
    status: 37
    ----- stdout -----
    ----- stderr -----
    error[HOST_PERMISSION]: cannot write to [HOME]/file/flotilla
    hint: set FLOTILLA_HOME to a writable directory
    ");
    assert_eq!(home.files(), ["file"]);
}

#[test]
fn a_folder_without_kubernetes_is_no_checkout() {
    let home = home();
    let of = |path: &str| home.run(["bundle", "build", "--kubernetes-source", path]);
    assert_snapshot!(of("."), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_BAD_CHECKOUT]: . is not a Kubernetes checkout: go.mod is missing
    ");
    assert_snapshot!(of("/not/there"), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_BAD_CHECKOUT]: /not/there is not a Kubernetes checkout: No such file or directory (os error 2)
    ");
    assert!(home.files().is_empty());
}
