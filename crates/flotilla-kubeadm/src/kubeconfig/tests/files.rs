//! Which file it is, whose it is, and who may change it when.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::thread;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Only root can give files away.
fn is_root() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().metadata().unwrap().uid() == 0
}

#[test]
fn a_new_file_is_for_its_owner_only() {
    let dir = flotilla_testkit::directory();
    let path = dir.path().join("home/.kube/config");
    let owner = is_root().then_some((1234, 4321));
    KubeconfigFile::open(&path).owned_by(owner).put(&entry("demo")).unwrap();
    assert_eq!(mode(&path), 0o600);
    for folder in ["home", "home/.kube"] {
        assert_eq!(mode(&dir.path().join(folder)), 0o700);
    }
    if let Some((user, group)) = owner {
        for path in ["home", "home/.kube", "home/.kube/config"] {
            let metadata = fs::metadata(dir.path().join(path)).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (user, group), "{path}");
        }
    }
    assert_eq!(names(path.parent().unwrap()), ["config"]);
}

#[test]
fn a_file_that_is_there_keeps_its_owner_and_is_for_nobody_else() {
    let dir = flotilla_testkit::directory();
    let path = dir.path().join("config");
    fs::write(&path, TWO).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    if is_root() {
        chown(&path, Some(1234), Some(4321)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    KubeconfigFile::open(&path).owned_by(Some((1, 1))).put(&entry("demo")).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mode() & 0o777, after.uid(), after.gid()), (0o600, before.uid(), before.gid()));
}

#[test]
fn links_are_followed_also_to_what_is_not_there_yet() {
    let dir = flotilla_testkit::directory();
    let [link, middle, real] =
        ["config", "dotfiles/middle", "dotfiles/kube/real"].map(|name| dir.path().join(name));
    fs::create_dir(dir.path().join("dotfiles")).unwrap();
    symlink("dotfiles/middle", &link).unwrap();
    symlink("kube/real", &middle).unwrap();
    for name in ["demo", "second"] {
        KubeconfigFile::open(&link).put(&entry(name)).unwrap();
    }
    assert!(link.is_symlink() && middle.is_symlink() && !real.is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("current-context: second"));
}

#[test]
fn with_sudo_no_link_of_the_user_leads_to_what_is_not_theirs() {
    const USER: u32 = 1234;
    if !is_root() {
        return flotilla_testkit::skip("only root gives files away");
    }
    let dir = flotilla_testkit::directory();
    let [home, etc] = ["home", "etc"].map(|name| dir.path().join(name));
    for directory in [&home, &etc, &home.join("dotfiles")] {
        fs::create_dir(directory).unwrap();
    }
    for theirs in [&home, &home.join("dotfiles")] {
        chown(theirs, Some(USER), Some(USER)).unwrap();
    }
    fs::write(etc.join("roots"), "").unwrap();
    let put = |link: &str, to: &str, path: &str| {
        let link = home.join(link);
        drop(fs::remove_file(&link));
        symlink(to, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(USER), Some(USER)).unwrap();
        KubeconfigFile::open(home.join(path)).owned_by(Some((USER, USER))).put(&entry("demo"))
    };
    for (link, to, path) in [
        ("config", "../etc/new", "config"),
        ("config", "../etc/roots", "config"),
        (".kube", "../etc", ".kube/config"),
        (".kube", "../etc", ".kube/new/config"),
        ("config", "dotfiles/../../etc/new", "config"),
    ] {
        let error = put(link, to, path).unwrap_err();
        let error = flotilla_core::explain::one_line(&error);
        assert!(error.ends_with("which is not its owner's") && error.contains("the link "), "{error}");
        assert_eq!(names(&etc), ["roots"]);
        assert_eq!(fs::read_to_string(etc.join("roots")).unwrap(), "");
    }
    // Also if the link came after the file was looked at.
    symlink("../etc", home.join("late")).unwrap();
    std::os::unix::fs::lchown(home.join("late"), Some(USER), Some(USER)).unwrap();
    save::write(&home.join("late/config"), b"", Some((USER, USER))).unwrap_err();
    assert_eq!(names(&etc), ["roots"]);
    put("config", "dotfiles/config", "config").unwrap();
    put(".kube", "dotfiles", ".kube/new/config").unwrap();
    assert_eq!(fs::metadata(home.join("dotfiles/new/config")).unwrap().uid(), USER);
    // A file that is theirs is theirs to change, wherever it is.
    chown(etc.join("roots"), Some(USER), Some(USER)).unwrap();
    put("config", "../etc/roots", "config").unwrap();
}

#[test]
fn devices_are_not_written_and_the_null_device_is_an_empty_file() {
    let null = KubeconfigFile::open("/dev/null");
    assert_eq!(null.state(&entry("demo")).unwrap(), State::Absent);
    assert_eq!(alone(&null).remove("demo", &[]).unwrap(), Changed::No);
    let error = null.put(&entry("demo")).unwrap_err();
    assert_eq!(error.to_string(), "/dev/null is not a regular file");
    let error = KubeconfigFile::open("/dev/zero").state(&entry("demo")).unwrap_err();
    assert_eq!(error.to_string(), "/dev/zero is not a regular file");
}

#[test]
fn nothing_is_made_to_remove_nothing() {
    let dir = flotilla_testkit::directory();
    let file = KubeconfigFile::open(dir.path().join(".kube/config"));
    let known = [Identity::of(&entry("demo"))];
    assert_eq!(alone(&file).remove("demo", &known).unwrap(), Changed::No);
    assert_eq!(alone(&file).unset_context("demo", &known).unwrap(), Changed::No);
    assert_eq!(file.state(&entry("demo")).unwrap(), State::Absent);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_file_that_we_made_stays_as_an_empty_one() {
    let dir = flotilla_testkit::directory();
    let path = dir.path().join("config");
    let file = KubeconfigFile::open(&path);
    file.put(&entry("demo")).unwrap();
    alone(&file).remove("demo", &[Identity::of(&entry("demo"))]).unwrap();
    assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
    apiVersion: v1
    kind: Config
    clusters: []
    contexts: []
    users: []
    current-context: ""
    "#);
}

#[test]
fn all_that_is_put_at_the_same_time_survives() {
    let dir = flotilla_testkit::directory();
    let file = KubeconfigFile::open(dir.path().join(".kube/config"));
    let entries: Vec<Entry> = (0..8).map(|number| entry(&format!("demo-{number}"))).collect();
    thread::scope(|scope| {
        for entry in &entries {
            scope.spawn(|| file.put(entry).unwrap());
        }
    });
    for entry in &entries {
        assert!(matches!(file.state(entry).unwrap(), State::Same { .. }));
    }
    assert_eq!(names(&dir.path().join(".kube")), ["config"]);
}
