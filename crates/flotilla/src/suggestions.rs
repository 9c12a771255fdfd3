//! "A similar command exists", only if a typing error is likely.
//!
//! clap also suggests words that share letters (`--gpus`: `--cpus`, `remove`: `recover`), which do something else.

use clap::error::{ContextKind, ContextValue};

/// From this length, two typing errors in a word still leave no doubt.
const LONG: usize = 8;

/// The error without suggestions that are other words.
pub(crate) fn only_typing_errors(mut error: clap::Error) -> clap::Error {
    for (given, suggested) in [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    ] {
        let Some(ContextValue::String(given)) = error.get(given).cloned() else { continue };
        let Some(words) = error.remove(suggested) else { continue };
        match typing_errors_among(&given, words) {
            Some(words) => drop(error.insert(suggested, words)),
            // The usage was that of the suggested flag.
            None if suggested == ContextKind::SuggestedArg => drop(error.remove(ContextKind::Usage)),
            None => {}
        }
    }
    // Other tips are for flags that were meant as they are: how to pass one as a value.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        let of_command = error.get(ContextKind::InvalidArg).map(|flag| format!(" {flag}' exists"));
        tips.retain(|tip| of_command.as_ref().is_none_or(|ending| tip.to_string().ends_with(ending)));
        // clap separates an empty list by a line as well.
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

fn typing_errors_among(given: &str, suggested: ContextValue) -> Option<ContextValue> {
    match suggested {
        ContextValue::String(word) => is_typing_error(given, &word).then_some(ContextValue::String(word)),
        ContextValue::Strings(mut words) => {
            words.retain(|word| is_typing_error(given, word));
            (!words.is_empty()).then_some(ContextValue::Strings(words))
        }
        _ => None,
    }
}

fn is_typing_error(given: &str, meant: &str) -> bool {
    let (given, meant) = (given.trim_start_matches('-'), meant.trim_start_matches('-'));
    let most = if given.chars().count() < LONG { 1 } else { 2 };
    typing_errors(given, meant) <= most
}

/// Letters that are missing, too many, wrong or exchanged with the next one (optimal string alignment).
fn typing_errors(given: &str, meant: &str) -> usize {
    let (given, meant): (Vec<char>, Vec<char>) = (given.chars().collect(), meant.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=meant.len()).collect()];
    for i in 1..=given.len() {
        let mut row = vec![i];
        for j in 1..=meant.len() {
            let is_wrong = given[i - 1] != meant[j - 1];
            let mut least =
                (rows[i - 1][j - 1] + usize::from(is_wrong)).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && given[i - 1] == meant[j - 2] && given[i - 2] == meant[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[given.len()][meant.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_typing_errors_are_corrected() {
        for (given, meant) in [
            ("satrt", "start"),
            ("strat", "start"),
            ("dlete", "delete"),
            ("lst", "list"),
            ("kubctl", "kubectl"),
            ("--ndoes", "--nodes"),
            ("--kubernetes-versoin", "--kubernetes-version"),
        ] {
            assert!(is_typing_error(given, meant), "{given} {meant}");
        }
        for (given, other) in
            [("remove", "recover"), ("strat", "status"), ("--addons", "--nodes"), ("", "ip")]
        {
            assert!(!is_typing_error(given, other), "{given} {other}");
        }
    }
}
