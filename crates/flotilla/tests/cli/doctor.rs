use std::collections::BTreeSet;

use flotilla_testkit::Home;

use super::exit_codes::on_the_page;
use super::{home, may_be_root};

/// What is looked at, in the order of the screen: the name for scripts, and the first words for people.
const CHECKS: [(&str, &str); 24] = [
    ("HOST_PERMISSION", "permission"),
    ("HOST_OLD_KERNEL", "kernel"),
    ("HOST_NO_NAMESPACES", "namespaces"),
    ("HOST_NO_CGROUPS", "cgroups"),
    ("HOST_NO_OVERLAY", "overlay"),
    ("HOST_NO_EROFS", "images"),
    ("HOST_READ_ONLY_HOME", "writing"),
    ("HOST_OVERLAY_HOME", "state directory"),
    ("HOST_FEW_INOTIFY", "inotify"),
    ("HOST_FEW_OPEN_FILES", "open files"),
    ("HOST_NO_OOM_SCORES", "out of memory"),
    ("HOST_SELINUX", "SELinux"),
    ("RSRC_FEW_CORES", "CPUs"),
    ("RSRC_INSUFFICIENT_MEMORY", "memory"),
    ("RSRC_DISK_FULL", "disk"),
    ("IF_NO_FORWARDING", "forwarding"),
    ("HOST_NO_NFTABLES", "packet filter"),
    ("IF_LEGACY_IPTABLES", "legacy iptables"),
    ("IF_FIREWALLD", "firewalld"),
    ("IF_FIREWALL", "firewall"),
    ("IF_SUBNETS_TAKEN", "subnets"),
    ("IF_NO_NAME_SERVER", "name server"),
    ("BUNDLE_NO_SOURCE", "bundle"),
    ("HOST_NO_USER_NAMESPACES", "user namespaces"),
];

/// Names of errors that no look at the host can tell beforehand, and why.
const NOT_THE_HOST: [(&str, &str); 25] = [
    ("BUNDLE_AMBIGUOUS", "what was typed"),
    ("BUNDLE_BAD_ARCHIVE", "a file that was named"),
    ("BUNDLE_BAD_CHECKOUT", "a directory that was named"),
    ("BUNDLE_BUILD", "a program that failed while it built"),
    ("BUNDLE_CHECKSUM", "what was downloaded"),
    ("BUNDLE_DAMAGED", "a bundle, found by `bundle verify`"),
    ("BUNDLE_IN_USE", "of `bundle remove`"),
    ("BUNDLE_NOT_FOUND", "what was typed"),
    ("BUNDLE_UNKNOWN_VERSION", "what was typed"),
    ("HOST_BAD_SNAPSHOT", "a file that was named"),
    ("HOST_FILE_EXISTS", "a file that was named"),
    ("HOST_IO", "a file that could be used before"),
    ("HOST_KUBECONFIG", "the user's own file, which only `update-context` needs"),
    ("HOST_KUBECONFIG_TAKEN", "the name that was typed"),
    ("HOST_NO_MOUNT", "a directory that was named"),
    ("HOST_STATE_DAMAGED", "one cluster's state"),
    ("HOST_STATE_NEWER", "one cluster's state"),
    ("HOST_UNREACHABLE", "another host, which did not answer"),
    ("HOST_UNFIT", "the sum of all checks"),
    ("IF_NETWORK", "what the kernel refused although the checks found nothing"),
    ("IF_NO_ADDRESS", "an address that was named"),
    ("IF_PORT_IN_USE", "a port that was named"),
    ("RSRC_INSUFFICIENT_CORES", "a number that was named"),
    ("RSRC_INSUFFICIENT_REQ_MEMORY", "a number that was named"),
    ("RSRC_INSUFFICIENT_STORAGE", "a number that was named"),
];

#[test]
fn every_check_is_told_to_people() {
    let home = home();
    let ran = home.run(["doctor"]);
    let findings = ran.stdout.lines().filter(|line| !line.starts_with(' '));
    let reported: Vec<_> = findings
        .map(|line| {
            let (verdict, text) = line.split_at(9);
            assert!(["ok", "warning", "fatal"].contains(&verdict.trim_end()), "{ran}");
            text.split_once(": ").unwrap_or_else(|| panic!("{line:?} in {ran}")).0
        })
        .collect();
    assert_eq!(reported, CHECKS.map(|(_, title)| title), "{ran}");
    assert_eq!(ran.status == 0, !ran.stdout.lines().any(|line| line.starts_with("fatal")), "{ran}");
    assert!(home.files().is_empty());
}

#[test]
fn every_check_has_a_name_for_scripts_and_a_cure_where_one_is_needed() {
    let ran = home().run(["doctor", "-o", "json"]);
    let findings = ran.json();
    let findings = findings.as_array().unwrap();
    let names: Vec<_> = findings.iter().map(|finding| finding["name"].as_str().unwrap()).collect();
    assert_eq!(names, CHECKS.map(|(name, _)| name));
    for finding in findings {
        let is_good = finding["severity"] == "good";
        assert!(
            is_good || ["warning", "fatal"].contains(&finding["severity"].as_str().unwrap()),
            "{finding}"
        );
        assert_eq!(finding["cure"] == "", is_good, "{finding}");
        assert_ne!(finding["text"], "", "{finding}");
    }
}

#[test]
fn every_refusal_that_depends_on_the_host_is_a_check() {
    let of_host =
        |name: &String| ["HOST_", "IF_", "RSRC_", "BUNDLE_"].iter().any(|prefix| name.starts_with(prefix));
    let names: BTreeSet<_> = on_the_page().into_iter().map(|(name, _)| name).filter(of_host).collect();
    let checked = CHECKS.iter().map(|(name, _)| (*name).to_owned());
    let others = NOT_THE_HOST.iter().map(|(name, _)| (*name).to_owned());
    let known: BTreeSet<_> = checked.chain(others).collect();
    let unknown: Vec<_> = names.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "make {unknown:?} checks of `doctor`, or say in NOT_THE_HOST why no look at the host can tell"
    );
    let gone: Vec<_> = known.difference(&names).collect();
    assert!(gone.is_empty(), "nothing is called {gone:?} any more");
}

/// What `doctor` says of a check.
fn finding(home: &Home, name: &str) -> (String, String) {
    let findings = home.run(["doctor", "-o", "json"]).json();
    let found = findings.as_array().into_iter().flatten().find(|finding| finding["name"] == name);
    let text = |key: &str| found.and_then(|found| found[key].as_str()).expect("the check has it").to_owned();
    (text("severity"), text("text"))
}

#[test]
fn what_start_refuses_doctor_has_told() {
    if !may_be_root() {
        return;
    }
    // An empty one would stand for the usual directories.
    let no_tools = home().with_env("PATH", "/nowhere");
    let read_only = home().with_env("FLOTILLA_HOME", "/proc/sys/flotilla");
    for (home, check, why) in [
        (no_tools, "BUNDLE_NO_SOURCE", "`go` is not in the PATH"),
        (read_only, "HOST_READ_ONLY_HOME", "cannot write to /proc/sys/flotilla"),
    ] {
        let (severity, text) = finding(&home, check);
        assert_eq!(severity, "fatal", "{text}");
        assert!(text.contains(why), "{text}");
        let refused = home.run(["start"]);
        assert_ne!(refused.status, 0, "{refused}");
        assert!(refused.stderr.contains(&text), "{refused}");
        assert!(home.files().is_empty(), "{:?}", home.files());
    }
}
