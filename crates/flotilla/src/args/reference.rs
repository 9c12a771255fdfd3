//! `docs/reference/cli.md` is what `--help` says, and is kept so by this test.

use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");

/// The options that all commands have are on the page once, with the program itself.
fn without_global_options(help: &str) -> String {
    let mut is_global = false;
    let kept = help.lines().filter(|line| {
        if !line.is_empty() && !line.starts_with(' ') {
            is_global = *line == "Global options:";
        }
        !is_global
    });
    kept.collect::<Vec<_>>().join("\n")
}

fn render(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let help = if name == "flotilla" { help } else { without_global_options(&help) };
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")).expect("a string can be written to");
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name());
        render(sub, &name, page);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the developer asks for the page to be written")]
fn the_reference_page_is_fresh() {
    let mut command = super::command();
    command.build();
    let mut page = String::from("# Commands\n\nGenerated from `--help`; see CONTRIBUTING.md.\n");
    render(&mut command, "flotilla", &mut page);
    if std::env::var_os("FLOTILLA_UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/cli.md is stale: FLOTILLA_UPDATE_DOCS=1 cargo test -p flotilla reference"
    );
}
