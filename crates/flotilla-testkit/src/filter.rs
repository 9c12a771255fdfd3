//! Replaces what differs from run to run, so that the rest can be compared.

use std::path::Path;

/// `#` stands for a digit, `*` for digits.
const PATTERNS: [(&str, &str); 11] = [
    ("####-##-##T##:##:##.*Z", "[TIME]"),
    ("####-##-##T##:##:##Z", "[TIME]"),
    ("##:##:## UTC", "[TIME]"),
    ("process * ", "process [PID] "),
    ("\"id\":\"*-*\"", "\"id\":\"[ID]\""),
    ("\"seconds\":\"*.#\"", "\"seconds\":\"[DURATION]\""),
    ("created *s ago", "created [AGE] ago"),
    ("done in *.# s", "done in [DURATION]"),
    ("done in * s", "done in [DURATION]"),
    ("(*.# s)", "([DURATION])"),
    ("(* s)", "([DURATION])"),
];

/// What a digest is long, in full and as people see it.
const DIGESTS: [usize; 2] = [64, 12];

#[derive(Debug, Clone)]
pub(crate) struct Filter {
    home: String,
}

impl Filter {
    pub(crate) fn new(home: &Path) -> Self {
        Self { home: home.display().to_string() }
    }

    /// The home, digests, process numbers, times, durations and the architecture, each by its name in brackets.
    pub(crate) fn apply(&self, text: &str) -> String {
        let text = text.replace(&self.home, "[HOME]").replace(flotilla_bundle::architecture(), "[ARCH]");
        PATTERNS.iter().fold(without_digests(&text), |text, (pattern, name)| replace(&text, pattern, name))
    }
}

fn replace(text: &str, pattern: &str, name: &str) -> String {
    let mut rest = text;
    let mut filtered = String::new();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = strip(rest, pattern) {
            filtered.push_str(name);
            rest = after;
        } else {
            filtered.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    filtered
}

/// What follows the pattern, if the text begins with it.
fn strip<'a>(mut text: &'a str, pattern: &str) -> Option<&'a str> {
    for expected in pattern.chars() {
        let digit = text.starts_with(|c: char| c.is_ascii_digit());
        text = match expected {
            '#' | '*' if !digit => return None,
            '#' => &text[1..],
            '*' => text.trim_start_matches(|c: char| c.is_ascii_digit()),
            _ => text.strip_prefix(expected)?,
        };
    }
    Some(text)
}

fn without_digests(text: &str) -> String {
    let is_digest = |word: &str| {
        let hex = word.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        hex && DIGESTS.contains(&word.len()) && word.contains(|c: char| c.is_ascii_digit())
    };
    // Each piece ends with the one character that ends its word.
    let pieces = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    pieces
        .map(|piece| {
            let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if is_digest(word) { piece.replacen(word, "[DIGEST]", 1) } else { piece.to_owned() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_the_rest_is_left_alone() {
        let filter = Filter::new(Path::new("/tmp/flotilla-home-x"));
        let of = |text: &str| filter.apply(text);
        assert_eq!(of("/tmp/flotilla-home-x/flotilla"), "[HOME]/flotilla");
        assert_eq!(of("2026-11-16T00:41:39Z, 2026-11-16T00:41:39.123Z"), "[TIME], [TIME]");
        assert_eq!(
            of("waiting for process 4711 to (since 10:00:00 UTC)"),
            "waiting for process [PID] to (since [TIME])"
        );
        assert_eq!(of("done in 0.4 s, 3 steps"), "done in [DURATION], 3 steps");
        let digest = "deef2ae31254f1becf5f184baaebb37bfde5a02e07a78a7ca7450d5ae24cf740";
        assert_eq!(of(&format!("sha256:{digest}\nis {}", &digest[..12])), "sha256:[DIGEST]\nis [DIGEST]");
        assert_eq!(of("status 14 für 1.37.1"), "status 14 für 1.37.1");
    }
}
