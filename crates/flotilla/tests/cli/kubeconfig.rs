//! The user's kubeconfig: nothing in it is changed that a cluster of flotilla did not write, and no command needs it.

use std::fs;
use std::path::PathBuf;

use flotilla_testkit::Home;

use super::stopped::home_with;
use super::{home, may_be_root};

/// A user's own cluster, with the credentials to it.
const PROD: &str = "\
# ask Ada before you touch this
apiVersion: v1
kind: Config
clusters:
- name: NAME
  cluster: {server: 'https://prod.example:6443', certificate-authority-data: T1RIRVI=}
contexts:
- name: NAME
  context: {cluster: NAME, user: NAME}
current-context: NAME
users:
- name: NAME
  user: {token: secret}
";

/// A kubeconfig as `flotilla start` writes it, of a cluster whose authority is `CA`.
const OURS: &str = "\
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://10.213.77.254:6443
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
";

fn write(home: &Home, text: &str) -> PathBuf {
    let path = home.path().join(".kube/config");
    fs::create_dir_all(home.path().join(".kube")).expect("a directory in the home");
    fs::write(&path, text).expect("a file in the home");
    path
}

/// A home with the stopped cluster demo, which was published before.
fn published_home() -> Option<Home> {
    let home = home_with("- {name: demo, role: control-plane, power: stopped}\n", &["demo"])?;
    fs::write(home.state().join("clusters/demo/kubeconfig"), OURS).expect("a file in the home");
    Some(home)
}

#[test]
fn a_persons_own_cluster_survives_the_deletion_of_one_that_never_was() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let prod = PROD.replace("NAME", "prod");
    let path = write(&home, &prod);
    let before = home.files();
    let ran = home.run(["delete", "-p", "prod"]).success();
    assert_eq!(ran.stdout, "cluster prod does not exist: nothing was deleted\n");
    assert!(
        ran.stderr
            .contains("/.kube/config has a cluster prod that this cluster did not write: left unchanged")
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), prod);
    drop(home.run(["delete", "--all"]).success());
    assert_eq!(fs::read_to_string(&path).unwrap(), prod);
    assert_eq!(home.files(), before);
}

#[test]
fn a_new_cluster_does_not_take_a_name_that_a_person_uses() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let prod = PROD.replace("NAME", "prod");
    let path = write(&home, &prod);
    let before = home.files();
    let ran = home.run(["start", "-p", "prod", "--force"]);
    let reported = format!(
        "error[HOST_KUBECONFIG_TAKEN]: name prod is in use: {file} already has a cluster prod\n\
         hint: choose another name with -p, rename cluster, user and context prod in {file}, or set KUBECONFIG to \
         another file\n",
        file = path.display()
    );
    assert!(ran.status == 31 && ran.stderr.ends_with(&reported), "{ran}");
    assert_eq!(home.run(["start", "-p", "prod", "--force", "--dry-run"]).status, 31);
    assert_eq!(fs::read_to_string(&path).unwrap(), prod);
    assert_eq!(home.files(), before, "nothing was built or made");
    drop(home.run(["start", "-p", "other", "--force", "--dry-run"]).success());
    // One item is enough, in any of the files.
    let more = home.path().join("more");
    fs::write(&more, "users:\n- name: web\n  user: {token: secret}\n").unwrap();
    let variable = format!("{}:{}", path.display(), more.display());
    let home = home.with_env("KUBECONFIG", variable);
    let ran = home.run(["start", "-p", "web", "--force", "--dry-run"]);
    assert!(ran.status == 31 && ran.stderr.contains("more already has a user web"), "{ran}");
}

#[test]
fn a_deleted_cluster_takes_out_what_it_has_written_and_nothing_else() {
    let Some(home) = published_home() else { return };
    let others = PROD.replace("NAME", "prod").replace("current-context: prod", "current-context: \"\"");
    let with_ours = others
        .replace("contexts:\n", &format!("{}contexts:\n", part(OURS, "clusters:\n", "contexts:\n")))
        .replace(
            "current-context: \"\"",
            &format!("{}current-context: demo", part(OURS, "contexts:\n", "users:\n")),
        )
        + part(OURS, "users:\n", "current-context:");
    let path = write(&home, &with_ours);
    let ran = home.run(["delete", "-p", "demo"]).success();
    assert_eq!(ran.stdout, "deleted cluster demo\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), others);
}

/// The lines after one key, up to another.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).expect("it has the key") + from.len();
    &text[start..start + text[start..].find(to).expect("it has the key")]
}

#[test]
fn a_persons_entry_of_the_same_name_outlives_the_cluster() {
    let Some(home) = published_home() else { return };
    let theirs = PROD.replace("NAME", "demo");
    let path = write(&home, &theirs);
    drop(home.run(["stop", "-p", "demo"]).success());
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs, "their current context stays");
    let ran = home.run(["delete", "-p", "demo"]).success();
    assert_eq!(ran.stdout, "deleted cluster demo\n");
    let note = "has a cluster demo that this cluster did not write: left unchanged\n";
    assert!(ran.stderr.contains(note), "{ran}");
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
}

#[test]
fn what_a_cluster_without_proof_may_have_written_stays_and_is_named() {
    let Some(home) = published_home() else { return };
    fs::write(home.state().join("clusters/demo/kubeconfig"), "{damaged").unwrap();
    let path = write(&home, OURS);
    let ran = home.run(["delete", "-p", "demo"]).success();
    assert!(
        ran.stderr.contains("has a cluster demo that this cluster did not write: left unchanged"),
        "{ran}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), OURS);
}

#[test]
fn a_stopped_cluster_is_not_the_current_context_of_whichever_file_says_so() {
    let Some(home) = published_home() else { return };
    let [first, second] = ["first", "second"].map(|name| home.path().join(name));
    fs::write(&first, "kind: Config\ncurrent-context: demo\n").unwrap();
    fs::write(&second, OURS.replace("current-context: demo", "current-context: \"\"")).unwrap();
    let home = home.with_env("KUBECONFIG", format!("{}:{}", first.display(), second.display()));
    assert_eq!(home.run(["list", "-o", "json"]).success().json()[0]["current"], true);
    drop(home.run(["stop", "-p", "demo", "--keep-context-active"]).success());
    assert_eq!(home.run(["list", "-o", "json"]).success().json()[0]["current"], true);
    drop(home.run(["stop", "-p", "demo"]).success());
    assert_eq!(fs::read_to_string(&first).unwrap(), "kind: Config\ncurrent-context: \"\"\n");
    assert_eq!(home.run(["list", "-o", "json"]).success().json()[0]["current"], false);
}

#[test]
fn a_kubeconfig_that_cannot_be_used_stops_nothing() {
    for (what, value) in [
        ("a device", "/dev/null".to_owned()),
        ("a directory", "/proc/self".to_owned()),
        ("no directory", "/proc/version/config".to_owned()),
        ("a bad line", String::new()),
    ] {
        let Some(home) = published_home() else { return };
        let bad = home.path().join("bad");
        fs::write(&bad, "kind: Config\n\tusers: []\n").unwrap();
        let value = if value.is_empty() { bad.display().to_string() } else { value };
        let home = home.with_env("KUBECONFIG", value);
        assert_eq!(home.run(["status", "-p", "demo"]).status, 7, "{what}");
        drop(home.run(["list"]).success());
        drop(home.run(["start", "-p", "demo", "--force", "--dry-run"]).success());
        drop(home.run(["start", "-p", "new", "--force", "--dry-run"]).success());
        let stopped = home.run(["stop", "-p", "demo"]).success();
        let deleted = home.run(["delete", "-p", "demo"]).success();
        assert_eq!(
            (stopped.stdout.as_str(), deleted.stdout.as_str()),
            ("cluster demo is already stopped\n", "deleted cluster demo\n")
        );
        // From an empty file nothing has to be taken.
        let expected = what != "a device";
        assert_eq!(
            stopped.stderr.contains("warning: cannot read your kubeconfig: "),
            expected,
            "{what} {stopped}"
        );
        let reported = deleted.stderr.contains("warning: cannot remove cluster demo from your kubeconfig: ");
        assert_eq!(reported, expected, "{what} {deleted}");
        assert_eq!(fs::read_to_string(&bad).unwrap(), "kind: Config\n\tusers: []\n");
    }
}
