//! Help. Its text is kept in docs/reference/cli.md, which a test beside the arguments compares.

use super::home;

/// Every command, as it is typed.
const COMMANDS: [&[&str]; 54] = [
    &[],
    &["start"],
    &["status"],
    &["list"],
    &["profile"],
    &["profile", "list"],
    &["get"],
    &["get", "clusters"],
    &["stop"],
    &["delete"],
    &["apply"],
    &["diff"],
    &["export"],
    &["schema"],
    &["pause"],
    &["unpause"],
    &["node"],
    &["node", "add"],
    &["node", "start"],
    &["node", "stop"],
    &["node", "delete"],
    &["node", "update"],
    &["node", "list"],
    &["node", "status"],
    &["node", "ip"],
    &["node", "ssh"],
    &["node", "logs"],
    &["node", "cp"],
    &["node", "pause"],
    &["node", "unpause"],
    &["etcd"],
    &["etcd", "status"],
    &["etcd", "snapshot"],
    &["etcd", "snapshot", "save"],
    &["etcd", "snapshot", "restore"],
    &["recover"],
    &["kubectl"],
    &["ssh"],
    &["logs"],
    &["cp"],
    &["ip"],
    &["doctor"],
    &["update-context"],
    &["bundle"],
    &["bundle", "build"],
    &["bundle", "clean"],
    &["bundle", "list"],
    &["bundle", "show"],
    &["bundle", "verify"],
    &["bundle", "remove"],
    &["bundle", "export"],
    &["bundle", "import"],
    &["version"],
    &["completion"],
];

#[test]
fn every_command_explains_itself_with_examples() {
    let home = home();
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            let ran = home.run(command.iter().chain([&flag])).success();
            assert!(ran.stdout.contains("\nUsage: flotilla "), "{command:?} {ran}");
            assert!(ran.stdout.contains("\nExamples:\n  "), "{command:?} {ran}");
            assert_eq!(ran.stderr, "");
        }
    }
    assert!(home.files().is_empty());
}

/// The page has them once, with the program itself.
fn without_global_options(help: &str) -> String {
    match help.split_once("\nGlobal options:\n") {
        Some((before, global)) => {
            let (_, examples) = global.split_once("\nExamples:\n").expect("examples come last");
            format!("{before}\nExamples:\n{examples}")
        }
        None => help.to_owned(),
    }
}

/// The page is the one snapshot of all help texts; the binary that people run must say the same, in lines of its own.
#[test]
fn help_is_what_the_reference_page_has() {
    let home = home();
    let page = include_str!("../../../../docs/reference/cli.md");
    for command in COMMANDS {
        let help = home.run(command.iter().chain([&"--help"])).success().stdout;
        let name = ["flotilla"].iter().chain(command).copied().collect::<Vec<_>>().join(" ");
        let section = page.split("\n## ").find_map(|section| section.strip_prefix(&format!("{name}\n")));
        let section = section.unwrap_or_else(|| panic!("no {name} in docs/reference/cli.md"));
        let text = section.trim().trim_start_matches("```text").trim_end_matches("```");
        let help = if command.is_empty() { help } else { without_global_options(&help) };
        assert!(help.split_whitespace().eq(text.split_whitespace()), "{name}: {help}\nthe page has:{text}");
    }
}

#[test]
fn help_fits_a_narrow_terminal_and_breaks_no_example() {
    let home = home().with_env("COLUMNS", "80");
    for command in COMMANDS {
        let help = home.run(command.iter().chain([&"-h"])).success().stdout;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
        }
        for line in examples.lines() {
            let begins = ["  flotilla ", "  source ", "  curl "].iter().any(|word| line.starts_with(word));
            assert!(begins, "{command:?} has a broken example: {line}");
        }
    }
}

#[test]
fn no_command_is_missing_here() {
    let home = home();
    let mut todo: Vec<Vec<String>> = vec![vec![]];
    let mut found = Vec::new();
    while let Some(command) = todo.pop() {
        let help = home.run(command.iter().map(String::as_str).chain(["--help"])).success().stdout;
        // The program itself has a heading for each group of commands.
        let heading = if command.is_empty() { "\nClusters:\n" } else { "\nCommands:\n" };
        let listed = help.split(heading).nth(1).unwrap_or_default();
        let is_option =
            |line: &&str| ["Arguments:", "Options:", "Global options:", "Examples:"].contains(line);
        for line in listed.lines().take_while(|line| !is_option(line)) {
            let name = line.split_whitespace().next().unwrap_or_default();
            let is_command = line.starts_with("  ") && !line.starts_with("   ");
            if is_command && name != "help" {
                todo.push(command.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
        found.push(command);
    }
    found.sort();
    let mut known = COMMANDS.map(<[&str]>::to_vec).to_vec();
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn without_arguments_there_is_help() {
    let home = home();
    let ran = home.run([""; 0]);
    assert_eq!(ran.to_string(), home.run(["--help"]).to_string());
    assert_eq!(home.run(["bundle"]).to_string(), home.run(["bundle", "--help"]).to_string());
}

#[test]
fn short_help_is_the_long_one_where_there_is_no_more_to_say() {
    let home = home();
    for command in COMMANDS {
        let help = |flag| home.run(command.iter().chain([&flag])).stdout;
        let has_more = help("-h").contains("(see more with '--help')");
        assert_eq!(help("-h") != help("--help"), has_more, "{command:?}");
    }
}
