//! Serde for values that are written as one string, and suggestions for misspelt words.
//!
//! A serde error is only text, so the hint is appended to it.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::SpecError;

/// Parses a value.
pub(crate) type Parse<T> = fn(&str) -> Result<T, SpecError>;

/// Reads a string, also where YAML would read a number or a boolean: the version `1.37`, the name `no`.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T>(deserializer: D, parse: Parse<T>) -> Result<T, D::Error> {
    deserializer.deserialize_str(Text(parse))
}

/// Reads a string or a bare number: `memory: 3072`.
pub(crate) fn parsed_or_number<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: Parse<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(Text(parse))
}

/// Reads a string, a bare number or nothing.
pub(crate) fn optional<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: Parse<T>,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_option(Optional(parse))
}

struct Text<T>(Parse<T>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(|error| match error.hint() {
            Some(hint) => E::custom(format_args!("{error}; {hint}")),
            None => E::custom(error),
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

struct Optional<T>(Parse<T>);

impl<'de, T> Visitor<'de> for Optional<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, a number or nothing")
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        parsed_or_number(deserializer, self.0).map(Some)
    }
}

/// The Levenshtein distance.
pub(crate) fn edit_distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (above, one) in one.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, other) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(one != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[row.len() - 1]
}

/// The known word that was probably meant.
pub fn nearest(given: &str, known: &[&str]) -> Option<String> {
    let given = given.to_lowercase();
    let distance = |name: &&&str| edit_distance(&given, &name.to_lowercase());
    // Two other letters in a short word make another word.
    let most = (given.len() / 2).min(2);
    let nearest = known.iter().min_by_key(distance).filter(|name| distance(name) <= most);
    nearest.map(|name| (*name).to_owned())
}

/// The value of one of several words.
pub(crate) fn one_of<T: Copy>(given: &str, what: &'static str, words: &[(&str, T)]) -> Result<T, SpecError> {
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        SpecError::UnknownWord {
            what,
            given: given.to_owned(),
            known: known.join(", "),
            nearest: nearest(given, &known),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (one, other, distance) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(edit_distance(one, other), distance);
            assert_eq!(edit_distance(other, one), distance);
        }
    }
}
