//! Which crates may use which: the table of docs/dev/architecture.md.

use std::collections::BTreeMap;

use flotilla_linux::host::Command;
use serde_json::Value;

/// Each crate, and the crates of ours that its code (not its tests) may use.
const ALLOWED: [(&str, &[&str]); 15] = [
    (
        "flotilla",
        &[
            "flotilla-bundle",
            "flotilla-core",
            "flotilla-engine",
            "flotilla-files",
            "flotilla-kubeadm",
            "flotilla-linux",
            "flotilla-native",
            "flotilla-node",
            "flotilla-ops",
            "flotilla-spec",
        ],
    ),
    ("flotilla-bundle", &["flotilla-core", "flotilla-files", "flotilla-linux", "flotilla-spec"]),
    ("flotilla-core", &["flotilla-node-api", "flotilla-spec"]),
    ("flotilla-engine", &["flotilla-core", "flotilla-files", "flotilla-node-api", "flotilla-spec"]),
    ("flotilla-files", &[]),
    (
        "flotilla-kubeadm",
        &["flotilla-core", "flotilla-files", "flotilla-linux", "flotilla-node-api", "flotilla-spec"],
    ),
    ("flotilla-linux", &["flotilla-core"]),
    (
        "flotilla-native",
        &[
            "flotilla-core",
            "flotilla-files",
            "flotilla-linux",
            "flotilla-node",
            "flotilla-node-api",
            "flotilla-spec",
        ],
    ),
    ("flotilla-node", &["flotilla-linux", "flotilla-node-api"]),
    ("flotilla-node-api", &[]),
    ("flotilla-ops", &["flotilla-core", "flotilla-engine", "flotilla-files", "flotilla-spec"]),
    ("flotilla-spec", &[]),
    (
        "flotilla-testkit",
        &[
            "flotilla-bundle",
            "flotilla-core",
            "flotilla-engine",
            "flotilla-linux",
            "flotilla-node-api",
            "flotilla-spec",
        ],
    ),
    ("gate", &[]),
    ("xtask", &["flotilla-bundle", "flotilla-core", "flotilla-engine", "flotilla-linux", "flotilla-spec"]),
];

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let metadata =
        Command::new(env!("CARGO")).args(["metadata", "--no-deps", "--format-version=1"]).run().unwrap();
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let names: Vec<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    assert_eq!(names.len(), allowed.len(), "a crate is not in the list: {names:?}");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let for_tests = dependency["kind"] == "dev";
            assert!(
                for_tests || !names.contains(&used) || allowed[name].contains(&used),
                "{name} may not use {used}"
            );
        }
    }
}
