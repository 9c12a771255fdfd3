use std::fs;

use flotilla_testkit::bundles::TINY_VERSION;
use insta::assert_snapshot;

use super::{home, home_with_bundle};

#[test]
fn no_bundles() {
    let home = home();
    assert_snapshot!(home.run(["bundle", "list"]), @"
    status: 0
    ----- stdout -----
    ----- stderr -----
    no bundles yet
    hint: build one with: flotilla bundle build
    ");
    assert_snapshot!(home.run(["bundle", "list", "-o", "json"]), @"
    status: 0
    ----- stdout -----
    []
    ----- stderr -----
    ");
    assert!(home.files().is_empty());
}

#[test]
fn without_a_state_folder_of_its_own_the_home_has_it() {
    let home = home().without_env("FLOTILLA_HOME");
    flotilla_testkit::bundles::tiny(&home.path().join(".flotilla"));
    assert_eq!(home.run(["bundle", "list", "-o", "json"]).success().json().as_array().unwrap().len(), 1);
}

#[test]
fn a_list_of_bundles() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "list"]), @"
    status: 0
    ----- stdout -----
    KUBERNETES   DIGEST         SIZE     SOURCE   CREATED
    v1.30.0      [DIGEST]   900 MB   build    [TIME]
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["bundle", "list", "-o", "json"]), @r#"
    status: 0
    ----- stdout -----
    [
      {
        "architecture": "[ARCH]",
        "created": "[TIME]",
        "digest": "[DIGEST]",
        "imported": false,
        "kubernetes": "v1.30.0",
        "path": "[HOME]/flotilla/bundles/[DIGEST]",
        "sizes": {
          "bin": 23,
          "onDisk": 900000000,
          "rootfs": 431000000,
          "store": 507000000
        },
        "source": "build"
      }
    ]
    ----- stderr -----
    "#);
}

#[test]
fn a_bundle_that_cannot_be_read_does_not_hide_the_others() {
    let (home, _) = home_with_bundle();
    let broken = home.state().join("bundles").join("0123456789abcdef".repeat(4));
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("manifest.json"), "{").unwrap();
    assert_snapshot!(home.run(["bundle", "list"]), @"
    status: 0
    ----- stdout -----
    KUBERNETES   DIGEST         SIZE     SOURCE   CREATED
    v1.30.0      [DIGEST]   900 MB   build    [TIME]
    ----- stderr -----
    warning: the manifest of [HOME]/flotilla/bundles/[DIGEST] cannot be read: EOF while parsing an object at line 1 column 1
    hint: remove it with: flotilla bundle remove [DIGEST]
    ");
    let ran = home.run(["bundle", "list", "-o", "json"]).success();
    assert_eq!(ran.json().as_array().unwrap().len(), 1);
    assert!(ran.stderr.starts_with("warning: "), "{ran}");
    assert_snapshot!(home.run(["bundle", "remove", "01234567"]), @"
    status: 0
    ----- stdout -----
    removed bundle [DIGEST]
    ----- stderr -----
    ");
}

#[test]
fn a_bundle_in_full() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "show", TINY_VERSION]), @"
    status: 0
    ----- stdout -----
    Kubernetes:  v1.30.0 ([ARCH])
    Digest:      sha256:[DIGEST]
    Built:       [TIME], from source 'build'
    Directory:   [HOME]/flotilla/bundles/[DIGEST]
    On disk:     900 MB

    DIRECTORY   SIZE       WHAT
    rootfs      431 MB     root file system of the nodes
    store       507 MB     images, unpacked for containerd
    bin         23 bytes   kubectl for this machine
                -38 MB     in two places, on disk once

    COMPONENT    VERSION   SIZE     FROM
    kubernetes   v1.30.0   613 MB   Go module k8s.io/kubernetes@v1.30.0
    pause        3.9       687 kB   flotilla's own program
    userland     debian    48 MB    2 Debian packages, 1 not in the lock file

    IMAGE
    registry.k8s.io/kube-apiserver:v1.30.0
    registry.k8s.io/pause:3.9

    VARIES BETWEEN BUILDS                          WHY
    store/io.containerd.metadata.v1.bolt/meta.db   it notes when it was made
    ----- stderr -----
    ");
}

#[test]
fn a_bundle_for_scripts() {
    let (home, digest) = home_with_bundle();
    let shown = home.run(["bundle", "show", TINY_VERSION, "-o", "json"]).success().json();
    assert_eq!(shown["digest"], digest);
    assert_eq!(shown["kubernetes"], TINY_VERSION);
    assert_eq!(shown["components"][0]["from"], "go-module");
    assert_eq!(shown["sizes"]["on_disk"], 900_000_000);
}

#[test]
fn a_bundle_has_many_names() {
    let (home, digest) = home_with_bundle();
    let long = format!("sha256:{digest}");
    for name in [TINY_VERSION, &TINY_VERSION[1..], &digest[..4], &digest[..12], &digest, &long] {
        assert_eq!(home.run(["bundle", "show", name, "-o", "json"]).success().json()["digest"], digest);
    }
}

#[test]
fn a_bundle_that_is_not_there() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "show", "nope"]), @"
    status: 15
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_NOT_FOUND]: no bundle for nope
    hint: list the bundles with: flotilla bundle list
    ");
    assert_snapshot!(home.run(["bundle", "show", "nope", "-o", "json"]), @r#"
    status: 15
    ----- stdout -----
    {"data":{"advice":"list the bundles with: flotilla bundle list","exitcode":"15","issues":"","message":"no bundle for nope","name":"BUNDLE_NOT_FOUND","url":""},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.error"}
    ----- stderr -----
    "#);
}
