use std::os::unix::fs::symlink;

use flotilla_testkit::Home;

use super::home;

/// The cluster is that of the context; kubectl itself is the bundle's, and needs one.
#[test]
fn under_the_name_of_kubectl_it_is_kubectl() {
    let place = home();
    let program = place.path().join("kubectl");
    symlink(env!("CARGO_BIN_EXE_flotilla"), &program).unwrap();
    let kubectl = Home::new(&program);
    let ran = kubectl.run(["--context", "demo", "get", "pods", "--watch=true"]);
    assert_eq!(ran.status, 85, "{ran}");
    assert!(ran.stderr.contains("cluster demo does not exist"), "{ran}");
    assert!(kubectl.run(["get", "pods"]).stderr.contains("cluster flotilla does not exist"));
}
