use std::ffi::OsString;

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
    let line = format!("flotilla {typed}");
    let error = parse(&line).expect_err(typed);
    answer(&error, &words(&line), &args::command())
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
        // The value of a flag is no name.
        ("cluster create --api-port 6443", "flotilla start --apiserver-port 6550"),
        ("create cluster --name mine --config k.yaml", "flotilla start -f k.yaml"),
        // What a shell would read otherwise stays an example.
        ("start mine;reboot", "flotilla start -p demo"),
        // A number of agents is not the number of nodes.
        ("cluster create --agents 7", "flotilla start --nodes 3"),
    ] {
        assert_eq!(answer_to(typed).unwrap().hints, [format!("type `{here}`")], "{typed}");
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
    assert_eq!(answer(&error, &line, &args::command()), None);
}
