//! What scripts read: every line of standard output is JSON with `-o json`, and ends with a result or an error.

use super::coverage::{CASES, ensure, for_all, prepared};
use super::world::json_lines;

/// Commands whose output is no data of ours.
const PLAIN: [&str; 3] = ["export", "ip", "node ip"];

#[test]
fn with_o_json_a_script_reads_all_of_it() {
    for_all(CASES.iter().filter(|case| !PLAIN.contains(&case.command)), |case| {
        let ran = prepared(case).run(&format!("{} -o json", case.line));
        let is_json = json_lines(&ran).is_some_and(|lines| !lines.is_empty());
        ensure(ran.status == 0 && is_json, format!("`{} -o json`: {ran}", case.line))
    });
}
