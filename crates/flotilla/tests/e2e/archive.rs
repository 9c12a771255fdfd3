//! A bundle travels in one file.

use crate::lab;

pub(crate) fn export_and_import_give_the_same_bundle() {
    let home = lab::home();
    let file = home.path().join("bundle.tar.zst");
    let file = file.to_str().unwrap();
    lab::bundle();
    // By its digest: a home of developers has bundles of other recipes, too.
    lab::succeed(&lab::real_home(), &["bundle", "export", lab::digest(), file]);
    lab::succeed(home.path(), &["bundle", "import", file, "--digest", lab::digest()]);
    assert_eq!(lab::bundle_store(home.path()), [lab::digest()]);
    lab::succeed(home.path(), &["bundle", "verify", lab::VERSION]);
    // With the bundle there, nothing has to be built, and nothing is.
    let said = lab::succeed(home.path(), &["bundle", "build"]);
    assert!(said.contains("already"), "{said}");

    // Cut off in the middle, it is refused and leaves nothing.
    let whole = std::fs::metadata(file).unwrap().len();
    std::fs::File::options().write(true).open(file).unwrap().set_len(whole / 2).unwrap();
    let other = lab::home();
    let refused = lab::run(other.path(), &["bundle", "import", file]);
    assert_eq!(refused.status.code(), Some(18), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(lab::bundle_store(other.path()).is_empty());
}
