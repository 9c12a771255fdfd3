//! `KUBECONFIG` with several files, which kubectl reads as one.

use std::ffi::{OsStr, OsString};

use super::*;

struct Files {
    folder: tempfile::TempDir,
    names: [&'static str; 3],
}

impl Files {
    fn new() -> Self {
        Self { folder: flotilla_testkit::directory(), names: ["a", "b", "c"] }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn all(&self) -> Kubeconfigs {
        let mut variable = OsString::from(":");
        for name in self.names {
            variable.push(self.path(name));
            variable.push("::");
        }
        Kubeconfigs::of(Some(&variable), Path::new("/home/ada"))
    }

    fn put(&self) -> Result<Changed, KubeconfigError> {
        self.all().put(&entry("demo"), &known())
    }
}

fn known() -> [Identity; 1] {
    [Identity::of(&entry("demo"))]
}

#[test]
fn without_the_variable_it_is_the_one_at_home() {
    for variable in [None, Some(OsStr::new("")), Some(OsStr::new(":"))] {
        let all = Kubeconfigs::of(variable, Path::new("/home/ada"));
        assert_eq!(all.path_of("demo"), Path::new("/home/ada/.kube/config"));
    }
}

#[test]
fn a_new_entry_is_for_the_first_file_that_exists_or_the_last() {
    let files = Files::new();
    assert_eq!(files.all().path_of("demo"), files.path("c"));
    files.write("b", "");
    files.write("c", &put(""));
    assert_eq!(files.all().path_of("other"), files.path("b"));
    assert_eq!(files.all().path_of("demo"), files.path("c"));
}

#[test]
fn the_current_context_is_that_of_the_first_file_that_names_one() {
    let files = Files::new();
    files.write("a", "kind: Config\ncurrent-context: ''\n");
    files.write("b", "current-context: two\n");
    files.write("c", &put(""));
    assert!(!files.all().is_current("demo", &known()).unwrap());
    assert_eq!(files.all().state(&entry("demo"), &known()).unwrap(), State::Same { current: false });
    // As `kubectl config use-context` does: in the first file that exists.
    assert_eq!(files.put().unwrap(), Changed::Yes);
    assert_eq!(files.read("a"), "kind: Config\ncurrent-context: demo\n");
    assert_eq!(files.read("b"), "current-context: two\n");
    assert_eq!(files.all().state(&entry("demo"), &known()).unwrap(), State::Same { current: true });
    assert_eq!(files.put().unwrap(), Changed::No);
}

#[test]
fn it_is_deselected_where_it_was_read_from() {
    let files = Files::new();
    files.write("a", "kind: Config\n");
    files.write("b", "current-context: demo\n");
    files.write("c", &put(""));
    assert!(files.all().is_current("demo", &known()).unwrap());
    assert_eq!(files.all().unset_context("demo", &known()).unwrap(), Changed::Yes);
    assert_eq!(files.read("b"), "current-context: \"\"\n");
    // Else the one in the next file would count.
    assert!(!files.all().is_current("demo", &known()).unwrap());
    assert_eq!(files.all().unset_context("demo", &known()).unwrap(), Changed::No);
}

#[test]
fn all_of_it_is_removed_from_all_files() {
    let files = Files::new();
    files.write("a", "current-context: demo\n");
    files.write("b", &put(TWO));
    files.write("c", &put(""));
    assert_eq!(files.all().remove("demo", &known()).unwrap(), Changed::Yes);
    for name in files.names {
        assert!(!files.read(name).contains("name: demo"), "{name}");
    }
    assert_eq!(files.read("a"), "current-context: \"\"\n");
}

#[test]
fn what_others_have_in_another_file_is_theirs() {
    let files = Files::new();
    files.write("a", &put(""));
    files.write("c", "users:\n- name: demo\n  user: {token: abc}\n");
    let told = files.put().unwrap_err().to_string();
    assert_eq!(
        told,
        format!("{} has a user demo that this cluster did not write", files.path("c").display())
    );
    files.all().remove("demo", &known()).unwrap();
    assert!(files.read("c").contains("token: abc"));
    assert!(!files.read("a").contains("name: demo"));
}

#[test]
fn a_context_whose_cluster_is_in_another_file_is_not_taken_over() {
    let files = Files::new();
    let theirs = "contexts:\n- name: demo\n  context: {cluster: demo, user: ada}\n";
    files.write("a", theirs);
    files.write("b", "clusters:\n- name: demo\n  cluster: {server: 'https://prod.example'}\n");
    files.put().unwrap_err();
    files.all().remove("demo", &known()).unwrap();
    assert_eq!(files.read("a"), theirs);
}

#[test]
fn one_file_that_cannot_be_read_does_not_keep_ours_in_the_others() {
    let files = Files::new();
    files.write("a", "[not yaml");
    files.write("b", &put(""));
    let told = files.all().remove("demo", &known()).unwrap_err().to_string();
    assert!(told.starts_with(&format!("{} is not valid YAML", files.path("a").display())), "{told}");
    assert!(!files.read("b").contains("name: demo"));
    assert!(files.put().is_err(), "kubectl cannot read it either");
    assert_eq!(files.read("a"), "[not yaml");
}

/// `kubectl --user demo` needs no context.
#[test]
fn a_persons_user_of_that_name_in_another_file_stays() {
    const THEIRS: &str = "users:\n- name: demo\n  user: {token: secret}\n";
    let files = Files::new();
    files.write("a", THEIRS);
    files.write("b", &put(""));
    files.all().remove("demo", &known()).unwrap();
    assert_eq!(files.read("a"), THEIRS);
    assert!(!files.read("b").contains("demo"), "{}", files.read("b"));
}
