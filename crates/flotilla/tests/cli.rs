//! The program as a user or a script meets it: exit status, stdout, stderr.
//!
//! Each test has a home of its own and needs neither network nor a bundle: [`flotilla_testkit::bundles`] makes one up.

mod cli {
    mod absent;
    mod build;
    mod called_as;
    mod completion;
    mod control_planes;
    mod crowded;
    mod doctor;
    mod dry_run;
    mod etcd;
    mod exit_codes;
    mod file;
    mod foreign;
    mod help;
    mod import_export;
    mod interrupt;
    mod kubeconfig;
    mod list_clusters;
    mod list_show;
    mod node_list;
    mod node_refused;
    mod node_update;
    mod output;
    mod permission;
    mod ranges;
    mod refused;
    mod remove;
    mod start_bundle;
    mod stopped;
    mod sudo;
    mod terminal;
    mod usage;
    mod verify;
    mod version;

    use flotilla_testkit::{Home, Ran, bundles};

    /// A home with nothing in it.
    fn home() -> Home {
        Home::new(env!("CARGO_BIN_EXE_flotilla"))
    }

    /// A home with a small bundle, and its digest.
    fn home_with_bundle() -> (Home, String) {
        let home = home();
        let digest = bundles::tiny(&home.state());
        (home, digest)
    }

    /// A run without the events that tell how far it has come: how many there are is up to the clock.
    fn without_progress(ran: &Ran) -> String {
        const PROGRESS: &str = "dev.flotilla.step.progress";
        assert!(ran.events().iter().any(|event| event["type"] == PROGRESS), "no progress:\n{ran}");
        let text = ran.to_string();
        text.lines().filter(|line| !line.contains(PROGRESS)).collect::<Vec<_>>().join("\n")
    }

    /// Bundles and clusters are made by root alone. Says so where a test is skipped.
    fn may_be_root() -> bool {
        let root = flotilla_testkit::is_root();
        if !root {
            flotilla_testkit::skip("this test needs root");
        }
        root
    }

    #[test]
    fn no_file_of_tests_is_forgotten() {
        let known = include_str!("cli.rs");
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            // Snapshots that wait for a review are files as well.
            let Some(module) = name.strip_suffix(".rs") else { continue };
            assert!(known.contains(&format!("    mod {module};\n")), "{name} is not in tests/cli.rs");
        }
    }
}
