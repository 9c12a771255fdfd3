use flotilla_testkit::bundles::{self, TINY_VERSION};
use insta::assert_snapshot;

use super::home_with_bundle;

#[test]
fn a_bundle_that_nobody_uses() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "remove", TINY_VERSION]), @"
    status: 0
    ----- stdout -----
    removed bundle [DIGEST]
    ----- stderr -----
    ");
    assert_eq!(home.files(), ["flotilla/", "flotilla/bundles.lock", "flotilla/bundles/"]);
}

#[test]
fn a_bundle_that_nobody_uses_for_scripts() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "remove", TINY_VERSION, "-o", "json"]), @r#"
    status: 0
    ----- stdout -----
    {"data":{"digest":"[DIGEST]"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.result"}
    ----- stderr -----
    "#);
}

#[test]
fn a_bundle_that_a_node_uses_stays() {
    let (home, digest) = home_with_bundle();
    bundles::use_in_node(&home.state(), "demo", "demo-m02", &digest);
    assert_snapshot!(home.run(["bundle", "remove", TINY_VERSION]), @"
    status: 11
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_IN_USE]: [DIGEST] is used by node demo-m02 of cluster demo
    hint: delete those clusters first: flotilla delete -p NAME
    ");
    drop(home.run(["bundle", "verify", TINY_VERSION]).success());
}

#[test]
fn a_bundle_that_is_not_there() {
    let (home, _) = home_with_bundle();
    assert_snapshot!(home.run(["bundle", "remove", "v1.29.0"]), @"
    status: 15
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_NOT_FOUND]: no bundle for v1.29.0
    hint: list the bundles with: flotilla bundle list
    ");
}
