//! What scripts read: every line of standard output is JSON with `-o json`, and ends with a result or an error.

use super::coverage::{CASES, ensure, for_all, prepared};
use super::world::{World, json_lines};
use serde_json::Value;

/// Commands whose output is no data of ours.
const PLAIN: [&str; 10] =
    ["export", "ip", "node ip", "ssh", "node ssh", "logs", "node logs", "kubectl", "schema", "completion"];

/// Scripts read all data into one map of strings, and follow the numbers of the steps.
#[test]
fn the_data_of_all_events_are_strings_and_steps_count_up() {
    for_all(CASES.iter().filter(|case| !PLAIN.contains(&case.command)), |case| {
        let ran = prepared(case).run(&format!("{} -o json", case.line));
        let lines = json_lines(&ran).unwrap_or_default();
        let events: Vec<_> = lines.iter().filter(|line| line["specversion"] == "1.0").collect();
        let are_strings =
            events.iter().all(|event| event["data"].as_object().unwrap().values().all(Value::is_string));
        let number = |event: &Value| event["data"]["currentstep"].as_str()?.parse::<usize>().ok();
        let numbers: Vec<_> = events.iter().filter_map(|event| number(event)).collect();
        let count_up = numbers.iter().copied().eq(1..=numbers.len());
        let has_steps = case.command != "start" || !numbers.is_empty();
        ensure(are_strings && count_up && has_steps, format!("`{} -o json`: {ran}", case.line))
    });
}

#[test]
fn with_o_json_a_script_reads_all_of_it() {
    for_all(CASES.iter().filter(|case| !PLAIN.contains(&case.command)), |case| {
        let ran = prepared(case).run(&format!("{} -o json", case.line));
        let is_json = json_lines(&ran).is_some_and(|lines| !lines.is_empty());
        ensure(ran.status == 0 && is_json, format!("`{} -o json`: {ran}", case.line))
    });
}

/// minikube's own tests take every line on standard error for a problem, and these words on standard output, too.
#[test]
fn a_start_that_goes_well_says_nothing_on_standard_error() {
    const WORDS: [&str; 4] = ["error", "fail", "warning", "conflict"];
    let world = World::new();
    for line in ["start --nodes 2", "start"] {
        let ran = world.run(line);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran}");
        assert!(!WORDS.iter().any(|word| ran.stdout.contains(word)), "{ran}");
    }
    assert!(World::new().run("start").stdout.contains("[1/"), "progress is on standard output");
}

/// What minikube's own tests and scripts pass, in the places where they pass it.
#[test]
fn flags_of_minikube_are_accepted_before_and_after_the_command() {
    let world = World::new();
    for line in [
        "start --wait=true --alsologtostderr -v=0 --install-addons=false --auto-update-drivers=false --interactive=false",
        "--user tester --logtostderr --stderrthreshold 1 start --embed-certs --keep-context=false --cache-images=false",
        "--vmodule=a=1 stop --one_output --skip_headers --add_dir_header --user=tester --log_file_max_size 1",
        "start --wait=extra --delete-on-failure --bootstrapper=kubeadm --preload=false",
        "pause --user tester -b kubeadm",
    ] {
        let ran = world.run(line);
        assert_eq!(ran.status, 0, "`{line}`: {ran}");
    }
    assert!(world.run("start --keep-context").stderr.contains("--keep-context is ignored"));
    let failed = World::new().run("start --memory 1m --delete-on-failure");
    assert!(failed.stderr.contains("hint: use --memory"), "{failed}");
    let refused = ["start --bootstrapper other", "start --rootless", "stop --interactive=false"];
    for line in refused {
        assert_eq!(world.run(line).status, 14, "{line}");
    }
}
