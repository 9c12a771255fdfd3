use std::ffi::OsString;

use flotilla_core::explain::ABOUT_NO_CLUSTER;

use super::pages::SAME;
use super::*;
use crate::args;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn parse(line: &str) -> Result<(), clap::Error> {
    args::parse(&words(line)).map(drop)
}

/// The answer to what was typed behind `flotilla`.
fn answer_to(typed: &str) -> Option<Answer> {
    answer_with_default(typed, DEFAULT_CLUSTER)
}

fn answer_with_default(typed: &str, default: &str) -> Option<Answer> {
    let line = format!("flotilla {typed}");
    let error = parse(&line).expect_err(typed);
    answer(&error, &words(&line), &args::command(), default)
}

/// What is typed in a row, once with each name of its flags.
fn examples(row: &Row) -> Vec<String> {
    let names = row.typed.split(' ').filter(|word| word.starts_with('-'));
    let most = names.map(|word| word.split('/').count()).max().unwrap_or(1);
    let word = |word: &'static str, choice: usize| match word.strip_prefix('<') {
        Some(example) => example.trim_end_matches('>'),
        None if word.starts_with('-') => {
            let names: Vec<&str> = word.split('/').collect();
            names[choice.min(names.len() - 1)]
        }
        None => word,
    };
    let line = |choice| row.typed.split(' ').map(|it| word(it, choice)).collect::<Vec<_>>().join(" ");
    (0..most).map(line).collect()
}

#[test]
fn every_row_answers_what_flotilla_refuses() {
    for row in TABLES.into_iter().flatten() {
        for typed in examples(row) {
            let accepted = parse(&format!("flotilla {typed}")).is_ok();
            assert!(!accepted, "flotilla accepts `{typed}`: remove the row");
            let answer = answer_to(&typed).unwrap_or_else(|| panic!("`{typed}` is not answered"));
            let hints: Vec<String> = row.here.iter().map(|line| format!("type `{line}`")).collect();
            assert_eq!(answer.hints, hints, "another row answers `{typed}`");
            assert!(answer.message.ends_with(row.why), "{}", answer.message);
        }
    }
}

#[test]
fn every_row_says_what_to_do() {
    for row in TABLES.into_iter().flatten() {
        assert!(!row.here.is_empty() || !row.why.is_empty(), "{}", row.typed);
    }
}

/// The commands of flotilla in a line for a shell.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split(['|', ';', '&', '(', ')', '<', '>'])
        .filter_map(|part| part.find("flotilla ").map(|start| &part[start..]))
}

fn is_accepted(command: &str) -> bool {
    parse(command).map_or_else(|error| error.kind() == ErrorKind::DisplayHelp, |()| true)
}

#[test]
fn flotilla_accepts_what_the_rows_suggest() {
    for line in TABLES.into_iter().flatten().flat_map(|row| row.here) {
        for command in commands(line) {
            assert!(is_accepted(command), "{command}");
        }
    }
    for (tool, lines) in SAME {
        for line in lines {
            assert!(is_accepted(&format!("flotilla {line}")), "{tool}: {line}");
        }
    }
}

#[test]
fn flags_of_ours_and_their_values_do_not_hide_the_words() {
    let answer = answer_to("-p demo start --nodes 3 --addons ingress --cpus=2").unwrap();
    assert_eq!(answer.message, "flotilla has no `start --addons`: an add-on is a manifest that you apply");
    let answer = answer_to("start --nodes 3 demo").unwrap();
    assert_eq!(answer.message, "flotilla has no `start demo`: the name of a cluster is a flag");
    let answer = answer_to("cluster create -a 2 mine").unwrap();
    assert_eq!(answer.hints, ["type `flotilla start -p mine --nodes 3`"]);
}

#[test]
fn names_that_were_typed_are_in_the_answer() {
    for (typed, here) in [
        ("delete cluster --name mine", "flotilla delete -p mine"),
        ("delete cluster --name=mine", "flotilla delete -p mine"),
        ("create cluster --config ./mine.yaml", "flotilla start -f ./mine.yaml"),
        ("kubeconfig write mine", "flotilla kubectl -p mine -- config view --raw > demo.conf"),
        ("start mine", "flotilla start -p mine"),
        // A hint without the name would delete another cluster.
        ("delete cluster mine", "flotilla delete -p mine"),
        ("delete clusters mine other", "flotilla delete -p mine"),
        ("destroy mine", "flotilla delete -p mine"),
        ("cluster create --api-port 6443", "flotilla start --apiserver-port 6443"),
        ("cluster create --api-port 0.0.0.0:6443", "flotilla start --apiserver-port 6550"),
        ("node create pool --replicas 5", "flotilla node add pool --count 5"),
        ("image load web:2", "docker save web:2 | flotilla ssh -- ctr -n k8s.io images import -"),
        ("image load ./web.tar", "flotilla ssh -- ctr -n k8s.io images import - < ./web.tar"),
        ("image import web.tar -c mine", "flotilla ssh -p mine -- ctr -n k8s.io images import - < web.tar"),
        (
            "load docker-image web:2 --name mine",
            "docker save web:2 | flotilla ssh -p mine -- ctr -n k8s.io images import -",
        ),
        (
            "image import web:2 -c mine",
            "docker save web:2 | flotilla ssh -p mine -- ctr -n k8s.io images import -",
        ),
        ("create cluster --name mine --config k.yaml", "flotilla start -f k.yaml"),
        // What a shell would read otherwise stays an example.
        ("start mine;reboot", "flotilla start -p demo"),
        // A number of agents is not the number of nodes.
        ("cluster create --agents 7", "flotilla start --nodes 3"),
        ("cluster create --servers 5 --agents 7", "flotilla start --control-planes 3 --nodes 5"),
    ] {
        assert_eq!(answer_to(typed).unwrap().hints, [format!("type `{here}`")], "{typed}");
    }
}

/// Without its name, a command in an answer would be about another cluster, and might delete that.
#[test]
fn answers_are_about_the_cluster_that_was_typed() {
    for (typed, here) in [
        ("-p demo down", &["flotilla stop -p demo", "flotilla delete -p demo"][..]),
        ("-p demo rm", &["flotilla delete -p demo", "flotilla node delete m02 -p demo"]),
        ("destroy -p demo", &["flotilla delete -p demo"]),
        ("delete -p demo --purge", &["flotilla delete -p demo", "flotilla bundle remove v1.37.1"]),
        ("delete --purge --profile=x", &["flotilla delete -p x", "flotilla bundle remove v1.37.1"]),
        ("stop -p demo --schedule 5m", &["sleep 5m && flotilla stop -p demo"]),
        ("stop -pdemo --schedule 5m", &["sleep 5m && flotilla stop -p demo"]),
        (
            "-p x service web",
            &["flotilla kubectl -p x -- get service web", "curl http://$(flotilla ip -p x):30080"],
        ),
        ("-p x use", &["flotilla update-context -p x", "flotilla profile x"]),
        ("-p x cordon", &["flotilla kubectl -p x -- cordon x-m02"]),
        ("-p x rm m03", &["flotilla delete -p m03", "flotilla node delete m03 -p x"]),
        // A name that a shell would read otherwise is not that of another cluster either.
        ("-p x delete mine;reboot", &["flotilla delete -p demo"]),
        (
            "node create w --role agent --cluster dev",
            &["flotilla node add w -p dev", "flotilla node add db --control-plane -p dev"],
        ),
        ("node create w --replicas 2 -c dev", &["flotilla node add w --count 2 -p dev"]),
        ("cluster create dev --port 8080:80@loadbalancer", &["flotilla start --port 8080:30080 -p dev"]),
        ("cluster create dev --no-lb", &["flotilla start -p dev"]),
        ("create cluster --name dev --retain", &["flotilla start -p dev"]),
        ("delete clusters", &["flotilla list"]),
        // A port of k3d is no name, nor is what no cluster can be called.
        ("cluster create -p 8080:80", &["flotilla start"]),
        ("-p No! destroy", &["flotilla delete"]),
        ("-p flotilla destroy", &["flotilla delete"]),
    ] {
        let here: Vec<String> = here.iter().map(|line| format!("type `{line}`")).collect();
        assert_eq!(answer_to(typed).unwrap().hints, here, "{typed}");
    }
    for (typed, here) in [
        ("destroy", "flotilla delete -p minikube"),
        ("destroy -p flotilla", "flotilla delete -p flotilla"),
        ("destroy mine", "flotilla delete -p mine"),
        ("podman-env", "podman save my-app:1 | flotilla ssh -p minikube -- ctr -n k8s.io images import -"),
    ] {
        let answer = answer_with_default(typed, "minikube").unwrap();
        assert_eq!(answer.hints, [format!("type `{here}`")], "{typed}");
    }
}

/// Whatever a row suggests is about the cluster, as far as it is about one.
#[test]
fn flotilla_accepts_what_the_rows_suggest_for_a_cluster() {
    for row in TABLES.into_iter().flatten() {
        for typed in examples(row).into_iter().filter(|typed| !typed.contains(" -p ")) {
            let answer = answer_with_default(&typed, "ships").unwrap();
            for hint in answer.hints {
                for command in commands(hint.trim_start_matches("type `").trim_end_matches('`')) {
                    let cluster = match args::parse(&words(command)) {
                        Ok(cli) => cli.profile,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{command}");
                            continue;
                        }
                    };
                    let is_about_none = command
                        .split(' ')
                        .any(|word| ABOUT_NO_CLUSTER.contains(&word) || ["-f", "--all"].contains(&word));
                    assert!(cluster.is_some() || is_about_none, "{typed}: {command}");
                }
            }
        }
    }
}

#[test]
fn typing_errors_are_left_to_clap() {
    for typed in ["satrt", "start --ndoes 3", "bundle lst", "start --mount", "node add --rolee x", "cp one"] {
        assert_eq!(answer_to(typed), None, "{typed}");
    }
    // A row is about the word that was refused, and only about that.
    assert_eq!(answer_to("start --ndoes 3 --addons ingress"), None);
}

/// As a script has it whose variable is empty.
#[test]
fn an_empty_word_is_not_a_name() {
    let line = ["flotilla", "start", ""].map(OsString::from);
    let error = args::parse(&line).unwrap_err();
    assert_eq!(answer(&error, &line, &args::command(), DEFAULT_CLUSTER), None);
}
