//! A YAML file as a tree of values with their places.
//!
//! Serde stops at the first error. A tree allows all errors to be reported together.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{MessageFormatter, Spanned, UserMessageFormatter};

use crate::SpecError;
use crate::error::Place;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) value: Value,
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Tree {
    /// Whether it is a map or empty.
    pub(super) fn may_have_fields(&self) -> bool {
        matches!(self.value, Value::Map(_) | Value::Nothing)
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.value, Value::Nothing)
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Bare(text, _) => Some(text),
            Value::Nothing | Value::List(_) | Value::Map(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum Value {
    Nothing,
    Text(String),
    /// A number or boolean, as written and as parsed: the reader chooses which one counts.
    Bare(String, Json),
    List(Vec<Tree>),
    /// Each key with its own place.
    Map(Vec<(Tree, Tree)>),
}

/// Parses a file, or returns its YAML syntax error.
pub(super) fn parse(source: Source<'_>) -> Result<Tree, SpecError> {
    // The reader of the tree reports duplicate keys together with all other errors.
    let options =
        serde_saphyr::options! { with_snippet: false, duplicate_keys: DuplicateKeyPolicy::LastWins };
    let parsed: Result<Spanned<Raw>, _> = serde_saphyr::from_str_with_options(source.text, options);
    parsed.map(|raw| source.tree(raw)).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
        let problem = UserMessageFormatter.format_message(&error).into_owned();
        SpecError::Syntax { problem }.at(source.place(line, column))
    })
}

/// A file's name and text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn place(self, line: u64, column: u64) -> Place {
        Place::new(self.file, self.text, line, column)
    }

    fn tree(self, raw: Spanned<Raw>) -> Tree {
        let (at, defined) = (raw.referenced, raw.defined);
        let value = match raw.value {
            Raw::Nothing => Value::Nothing,
            Raw::Text(text) => Value::Text(text),
            Raw::Bare(read) => {
                let written = self.slice(defined.span()).unwrap_or_else(|| read.to_string());
                Value::Bare(written, read)
            }
            Raw::List(items) => Value::List(items.into_iter().map(|item| self.tree(item)).collect()),
            Raw::Map(fields) => {
                let tree = |raw| self.tree(raw);
                Value::Map(fields.into_iter().map(|(key, value)| (tree(key), tree(value))).collect())
            }
        };
        Tree { value, line: at.line(), column: at.column() }
    }

    /// The text as written: a parser reads the version `1.10` as 1.1.
    fn slice(self, span: serde_saphyr::Span) -> Option<String> {
        let start = usize::try_from(span.byte_offset()?).ok()?;
        let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
        Some(self.text.get(start..end)?.trim().to_owned())
    }
}

/// A value as parsed.
#[derive(Debug)]
enum Raw {
    Nothing,
    Text(String),
    /// A number or boolean.
    Bare(Json),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Nothing)
    }

    fn visit_none<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, yes: bool) -> Result<Raw, E> {
        Ok(Raw::Bare(yes.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Bare(number.into()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Bare(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Bare(number.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(Raw::Map(map))
    }
}
