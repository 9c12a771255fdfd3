//! Texts that nobody wrote.

use proptest::prelude::*;

use super::*;

/// What may stand between two items or keys.
fn between() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just("\n"), 1 => Just("# a comment\n"), 1 => Just("  # a deep one\n")]
}

/// A list with its key, with unique names, and items as people write them.
fn list(key: &'static str, inner: &'static str) -> impl Strategy<Value = String> {
    let forms = prop_oneof![
        Just("INNER:\n    server: https://x # why\n  name: NAME\n"),
        Just("name: NAME\n  INNER: {server: 'https://x', y: [1, 2]}\n"),
        Just("name: \"NAME\"\n\n  INNER:\n    text: |\n      - one\n\n      # two\n    after: 1\n"),
        Just("INNER:\n    long: \"a\n      b\"\n  # inside\n  name: 'NAME'\n"),
        Just("{name: NAME, INNER: {}}\n"),
    ];
    let items = prop::collection::vec((forms, between()), 0..4);
    (items, 0..3_usize, between()).prop_map(move |(items, indent, before)| {
        if items.is_empty() {
            return format!("{before}{key}: []\n");
        }
        let margin = " ".repeat(indent);
        let mut text = format!("{before}{key}:\n");
        for (index, (form, after)) in items.iter().enumerate() {
            let item = format!("- {form}").replace("INNER", inner).replace("NAME", &format!("n{index}"));
            for line in item.split_inclusive('\n') {
                text += if line == "\n" { "" } else { &margin };
                text += line;
            }
            text += after;
        }
        text
    })
}

/// A kubeconfig in block style, its keys in any order, some of them missing.
fn config() -> impl Strategy<Value = String> {
    let keys = (
        list("clusters", "cluster"),
        list("contexts", "context"),
        list("users", "user"),
        Just("kind: Config\n".to_owned()),
        Just("current-context: n0 # now\n".to_owned()),
        Just("preferences:\n  colors: true\n".to_owned()),
    );
    let keys = keys.prop_map(|(a, b, c, d, e, f)| vec![a, b, c, d, e, f]).prop_shuffle();
    (keys, 3..=6_usize).prop_map(|(keys, count)| keys[..count].concat())
}

/// The text after the changes, without a file; none if it is refused.
fn changed(text: &str, plan: impl Fn(&Tree) -> Result<Vec<Change>, Malformed>) -> Option<String> {
    let documents = tree::parse(text).ok()?;
    edit::edit(text, &documents, &plan(&documents[0]).ok()?)
}

/// What takes all of that name out, with the current context.
fn remove_n0(config: &Tree) -> Result<Vec<Change>, Malformed> {
    let changes = change::remove(config, "n0", |_, _| true)?;
    Ok(changes.into_iter().chain(change::unset_context(config, "n0")).collect())
}

/// Whether `part` is `whole` with lines left out.
fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut lines = whole.lines();
    part.lines().all(|wanted| lines.any(|line| line == wanted))
}

fn without_lines(text: &str, unwanted: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| !unwanted(line)).collect::<Vec<_>>().join("\n")
}

proptest! {
    #[test]
    fn putting_and_removing_gives_back_the_same_file(text in config()) {
        let put = changed(&text, |config| change::put(config, &entry("demo"), false)).unwrap();
        let others = without_lines(&text, |line| line.contains(": []"));
        prop_assert!(is_subsequence(&others, &put), "{}", put);
        let after = changed(&put, |config| change::remove(config, "demo", |_, _| true)).unwrap();
        // A key that was missing stays, with an empty list.
        let missing = change::LISTS.iter().filter(|list| !text.contains(*list));
        let expected = missing.fold(text.clone(), |text, list| format!("{text}{list}: []\n"));
        prop_assert_eq!(after, expected);
    }

    #[test]
    fn removing_leaves_the_lines_of_others(text in config()) {
        let after = changed(&text, remove_n0).unwrap();
        let others = without_lines(&after, |line| line.contains(": []") || line.contains("current-context"));
        prop_assert!(is_subsequence(&others, &text), "{}", after);
    }

    #[test]
    fn whatever_the_text_the_entry_is_in_it_afterwards_or_it_is_refused(
        text in "([a-c#'\"{}\\[\\],&*|-]|: |\n|  |clusters:|users:\n- name: ){0,30}"
    ) {
        if let Some(after) = changed(&text, |config| change::put(config, &entry("demo"), true)) {
            let config = tree::parse(&after).unwrap().swap_remove(0);
            prop_assert_eq!(change::put(&config, &entry("demo"), true), Ok(Vec::new()));
        }
    }
}
