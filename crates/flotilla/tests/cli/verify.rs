use std::fs;

use flotilla_testkit::bundles::TINY_VERSION;
use insta::assert_snapshot;

use super::{home_with_bundle, without_progress};

#[test]
fn a_whole_bundle() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "verify", TINY_VERSION]), @"
    status: 0
    ----- stdout -----
    verified bundle [DIGEST]: 3 files match
    ----- stderr -----
    checking v1.30.0: done in [DURATION]
    ");
    assert_snapshot!(without_progress(&home.run(["bundle", "verify", TINY_VERSION, "-o", "json"])), @r#"
    status: 0
    ----- stdout -----
    {"data":{"currentstep":"1","message":"checking v1.30.0","name":"verify","totalsteps":"1"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.step"}
    {"data":{"name":"verify","outcome":"done","seconds":"[DURATION]"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.step.done"}
    {"data":{"architecture":"[ARCH]","created":"[TIME]","digest":"[DIGEST]","imported":"false","kubernetes":"v1.30.0","path":"[HOME]/flotilla/bundles/[DIGEST]","sizes":"{\"bin\":23,\"onDisk\":900000000,\"rootfs\":431000000,\"store\":507000000}","source":"build"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.result"}
    ----- stderr -----
    "#);
}

#[test]
fn every_damaged_file_is_named() {
    let (home, digest) = home_with_bundle();
    let bundle = home.state().join("bundles").join(digest);
    let kubectl = bundle.join("bin/kubectl");
    let mut bytes = fs::read(&kubectl).unwrap();
    bytes[3] ^= 1;
    // The same file is in the root file system too.
    fs::write(&kubectl, bytes).unwrap();
    fs::remove_file(bundle.join("rootfs/bin")).unwrap();
    fs::write(bundle.join("store/extra"), "").unwrap();
    assert_snapshot!(home.run(["bundle", "verify", TINY_VERSION]), @"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_DAMAGED]: [DIGEST] is damaged: 4 of its files differ
        bin/kubectl: content differs
        rootfs/bin: missing
        rootfs/usr/bin/kubectl: content differs
        store/extra: not part of the bundle
    hint: remove and rebuild it: flotilla bundle remove [DIGEST], flotilla bundle build
    ");
    let ran = home.run(["bundle", "verify", TINY_VERSION, "-o", "json"]);
    assert_eq!(ran.status, 18);
    let last = ran.events().pop().unwrap();
    assert_eq!(last["type"], "io.k8s.sigs.minikube.error");
    assert!(last["data"]["message"].as_str().unwrap().contains("\nbin/kubectl: content differs\n"), "{ran}");
}
