use super::home;

/// What is looked at, in the order of the screen: the name for scripts, and the first words for people.
const CHECKS: [(&str, &str); 19] = [
    ("HOST_PERMISSION", "permission"),
    ("HOST_OLD_KERNEL", "kernel"),
    ("HOST_NO_NAMESPACES", "namespaces"),
    ("HOST_NO_CGROUPS", "cgroups"),
    ("HOST_NO_OVERLAY", "overlay"),
    ("HOST_OVERLAY_HOME", "state folder"),
    ("HOST_FEW_INOTIFY", "inotify"),
    ("HOST_FEW_OPEN_FILES", "open files"),
    ("HOST_NO_OOM_SCORES", "out of memory"),
    ("HOST_SELINUX", "SELinux"),
    ("RSRC_FEW_CORES", "processors"),
    ("RSRC_INSUFFICIENT_MEMORY", "memory"),
    ("RSRC_DISK_FULL", "disk"),
    ("IF_NO_FORWARDING", "forwarding"),
    ("HOST_NO_NFTABLES", "packet filter"),
    ("IF_LEGACY_IPTABLES", "legacy iptables"),
    ("IF_FIREWALLD", "firewalld"),
    ("IF_SUBNETS_TAKEN", "subnets"),
    ("IF_NO_NAME_SERVER", "name server"),
];

#[test]
fn every_check_is_told_to_people() {
    let home = home();
    let ran = home.run(["doctor"]);
    let findings = ran.stdout.lines().filter(|line| !line.starts_with(' '));
    let told: Vec<_> = findings
        .map(|line| {
            let (verdict, text) = line.split_at(9);
            assert!(["ok", "warning", "fatal"].contains(&verdict.trim_end()), "{ran}");
            text.split_once(": ").unwrap_or_else(|| panic!("{line:?} in {ran}")).0
        })
        .collect();
    assert_eq!(told, CHECKS.map(|(_, title)| title), "{ran}");
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
