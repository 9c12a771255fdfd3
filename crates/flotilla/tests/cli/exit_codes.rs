//! `docs/reference/exit-codes.md` has every code of the sources, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PAGE: &str = include_str!("../../../../docs/reference/exit-codes.md");

/// What tests make up is on no page.
const NOT_THE_PROGRAM: [&str; 2] = ["tests", "flotilla-testkit"];

/// A name and an exit status, as both are written next to each other wherever there is a code.
pub(super) type Code = (String, String);

#[test]
fn the_page_has_every_code_of_the_sources() {
    let (mut in_sources, mut todo) = (BTreeSet::new(), vec![PathBuf::from(CRATES)]);
    while let Some(directory) = todo.pop() {
        for item in fs::read_dir(&directory).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() && !NOT_THE_PROGRAM.iter().any(|name| path.ends_with(name)) {
                todo.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                in_sources.extend(codes_in(&path));
            }
        }
    }
    assert!(in_sources.len() > 20, "they are not found any more: {in_sources:?}");
    let on_the_page = on_the_page();
    let missing: Vec<_> = in_sources.difference(&on_the_page).collect();
    let stale: Vec<_> = on_the_page.difference(&in_sources).collect();
    assert!(missing.is_empty() && stale.is_empty(), "the page lacks {missing:?} and has {stale:?} too much");
}

/// `"NAME", 14` or `name: "NAME", exit_status: 14`.
fn codes_in(path: &Path) -> Vec<Code> {
    let text = fs::read_to_string(path).expect("a source file");
    // The piece after a piece that is a name begins with what follows the name's closing quote.
    let pieces: Vec<_> = text.split('"').collect();
    let is_name = |piece: &str| {
        piece.contains('_') && piece.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            || piece == "INTERRUPTED"
    };
    let code = |pair: &[&str]| {
        let after = pair[1].strip_prefix(',')?.trim_start();
        let after = after.strip_prefix("exit_status: ").unwrap_or(after);
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        (is_name(pair[0]) && !digits.is_empty()).then(|| (pair[0].to_owned(), digits))
    };
    pieces.windows(2).filter_map(code).collect()
}

/// Every code that the program has.
pub(super) fn on_the_page() -> BTreeSet<Code> {
    let rows = PAGE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (status, name) = (cells.next()?, cells.next()?);
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), status.to_owned()))
    });
    rows.collect()
}
