//! The table of attacks in docs/security.md is that of the tests.

use std::fmt::Write;
use std::fs;

use super::{Outcome, TOPICS, Works};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
const BEGIN: &str =
    "<!-- The table is that of the tests: FLOTILLA_UPDATE_DOCS=1 scripts/test e2e attacks -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// Fails if the document has another table; writes it if `FLOTILLA_UPDATE_DOCS` is set.
#[expect(clippy::disallowed_methods, reason = "a setting for the tests, not for the program")]
pub(super) fn check() {
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("where the table begins");
    let (table, after) = rest.split_once(END).expect("where the table ends");
    let wanted = render();
    if std::env::var_os("FLOTILLA_UPDATE_DOCS").is_some() {
        fs::write(DOCUMENT, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(table, wanted, "docs/security.md has another table: write it with FLOTILLA_UPDATE_DOCS=1");
}

fn render() -> String {
    let mut table =
        "| attack | `none` | `user` | by what, or why not |\n| --- | --- | --- | --- |\n".to_owned();
    for (topic, attacks) in TOPICS {
        writeln!(table, "| **{topic}** | | | |").unwrap();
        for attack in *attacks {
            let [none, user] = [attack.none, attack.user].map(word);
            writeln!(table, "| {} | {none} | {user} | {} |", attack.name, attack.why).unwrap();
        }
    }
    table
}

fn word(outcome: Outcome) -> &'static str {
    if outcome == Works { "**works**" } else { "stopped" }
}
