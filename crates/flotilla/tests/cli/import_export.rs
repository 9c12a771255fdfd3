use std::fs;
use std::path::PathBuf;

use flotilla_testkit::Home;
use flotilla_testkit::bundles::TINY_VERSION;
use insta::assert_snapshot;

use super::{home, home_with_bundle, may_be_root, without_progress};

/// The tiny bundle in one file, with the home it is in and its digest.
fn exported() -> (Home, PathBuf, String) {
    let (home, digest) = home_with_bundle();
    drop(home.run(["bundle", "export", TINY_VERSION, "bundle.tar.zst"]).success());
    let file = home.path().join("bundle.tar.zst");
    (home, file, digest)
}

/// Everything in a home is what it was before, and nothing that looks like a bundle was added.
fn has_no_bundle(home: &Home) -> bool {
    let empty = ["flotilla/", "flotilla/bundles.lock", "flotilla/bundles/"];
    home.files().iter().all(|file| empty.contains(&file.as_str()) || !file.starts_with("flotilla/"))
}

#[test]
fn a_bundle_goes_from_one_home_to_another() {
    if !may_be_root() {
        return;
    }
    let (first, digest) = home_with_bundle();
    assert_snapshot!(first.run(["bundle", "export", TINY_VERSION, "bundle.tar.zst"]), @"
    status: 0
    ----- stdout -----
    exported bundle sha256:[DIGEST] to bundle.tar.zst
    import it with: flotilla bundle import bundle.tar.zst --digest [DIGEST]
    ----- stderr -----
    writing bundle.tar.zst: done in [DURATION]
    ");
    let second = home();
    fs::rename(first.path().join("bundle.tar.zst"), second.path().join("bundle.tar.zst")).unwrap();
    assert_snapshot!(second.run(["bundle", "import", "bundle.tar.zst", "--digest", &digest]), @"
    status: 0
    ----- stdout -----
    imported bundle [DIGEST] for Kubernetes v1.30.0
    ----- stderr -----
    reading bundle.tar.zst: done in [DURATION]
    ");
    assert_eq!(second.run(["bundle", "verify", &digest]).success().status, 0);
    // Once more changes nothing.
    assert_snapshot!(second.run(["bundle", "import", "bundle.tar.zst"]), @"
    status: 0
    ----- stdout -----
    imported bundle [DIGEST] for Kubernetes v1.30.0
    ----- stderr -----
    reading bundle.tar.zst: done in [DURATION]
    ");
}

#[test]
fn scripts_see_each_step() {
    if !may_be_root() {
        return;
    }
    let (first, _) = home_with_bundle();
    assert_snapshot!(without_progress(&first.run(["bundle", "export", TINY_VERSION, "bundle.tar.zst", "-o", "json"])), @r#"
    status: 0
    ----- stdout -----
    {"data":{"currentstep":"1","message":"writing bundle.tar.zst","name":"export","totalsteps":"1"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.step"}
    {"data":{"name":"export","outcome":"done","seconds":"[DURATION]"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.step.done"}
    {"data":{"architecture":"[ARCH]","created":"[TIME]","digest":"[DIGEST]","imported":"false","kubernetes":"v1.30.0","path":"[HOME]/flotilla/bundles/[DIGEST]","sizes":"{\"bin\":23,\"onDisk\":900000000,\"rootfs\":431000000,\"store\":507000000}","source":"build"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.result"}
    ----- stderr -----
    "#);
    let second = home();
    fs::rename(first.path().join("bundle.tar.zst"), second.path().join("bundle.tar.zst")).unwrap();
    assert_snapshot!(without_progress(&second.run(["bundle", "import", "bundle.tar.zst", "-o", "json"])), @r#"
    status: 0
    ----- stdout -----
    {"data":{"currentstep":"1","message":"reading bundle.tar.zst","name":"import","totalsteps":"1"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.step"}
    {"data":{"name":"import","outcome":"done","seconds":"[DURATION]"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.step.done"}
    {"data":{"architecture":"[ARCH]","created":"[TIME]","digest":"[DIGEST]","imported":"true","kubernetes":"v1.30.0","path":"[HOME]/flotilla/bundles/[DIGEST]","sizes":"{\"bin\":23,\"onDisk\":900000000,\"rootfs\":431000000,\"store\":507000000}","source":"build"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.result"}
    ----- stderr -----
    "#);
}

#[test]
fn an_export_to_nowhere_says_where() {
    let (home, _) = home_with_bundle();
    let ran = home.run(["bundle", "export", TINY_VERSION, "not/there.tar.zst"]);
    assert_eq!(ran.status, 30, "{ran}");
    assert!(
        ran.stderr.contains(": cannot write not/there.tar.zst\n  caused by: No such file or directory"),
        "{ran}"
    );
}

#[test]
fn garbage_is_refused() {
    if !may_be_root() {
        return;
    }
    let home = home();
    fs::write(home.path().join("garbage"), "this is no archive").unwrap();
    assert_snapshot!(home.run(["bundle", "import", "garbage"]), @"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_BAD_ARCHIVE]: cannot import garbage: cannot read it: Unknown frame descriptor
    ");
    assert!(has_no_bundle(&home), "{:?}", home.files());
}

#[test]
fn an_archive_that_was_cut_off_is_refused() {
    if !may_be_root() {
        return;
    }
    let (_first, file, _) = exported();
    let bytes = fs::read(file).unwrap();
    let home = home();
    fs::write(home.path().join("half"), &bytes[..bytes.len() / 2]).unwrap();
    let ran = home.run(["bundle", "import", "half"]);
    assert_eq!(ran.status, 18, "{ran}");
    assert!(ran.stderr.contains("error[BUNDLE_BAD_ARCHIVE]: cannot import half: "), "{ran}");
    assert!(has_no_bundle(&home), "{:?}", home.files());
}

#[test]
fn another_digest_than_expected_is_refused() {
    if !may_be_root() {
        return;
    }
    let (_first, file, _) = exported();
    let home = home();
    let wrong = "5".repeat(64);
    fs::rename(file, home.path().join("bundle.tar.zst")).unwrap();
    assert_snapshot!(home.run(["bundle", "import", "bundle.tar.zst", "--digest", &wrong]), @"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_BAD_ARCHIVE]: cannot import bundle.tar.zst: the digest is [DIGEST], expected [DIGEST]
    ");
    assert!(has_no_bundle(&home), "{:?}", home.files());
}

#[test]
fn a_file_that_is_not_there() {
    let home = home();
    assert_snapshot!(home.run(["bundle", "import", "not-there"]), @"
    status: 30
    ----- stdout -----
    ----- stderr -----
    error[HOST_IO]: cannot read not-there
      caused by: No such file or directory (os error 2)
    ");
    assert!(home.files().is_empty());
}
