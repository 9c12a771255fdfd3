//! What a kubeconfig says, without the way it is written, but in its order.
//!
//! `serde_json::Value` sorts keys unless a feature is on that would change it for the whole program.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

/// A value of YAML or JSON.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Reads the documents of a text, one at least: an empty text is one document that is null.
pub(super) fn parse(text: &str) -> Result<Vec<Tree>, serde_saphyr::Error> {
    // A snippet of the text could show somebody's key.
    let options = serde_saphyr::options! { with_snippet: false };
    let mut documents: Vec<Tree> = serde_saphyr::from_multiple_with_options(text, options)?;
    if documents.is_empty() {
        documents.push(Tree::Null);
    }
    Ok(documents)
}

/// Says why a text could not be parsed, without where.
pub(super) fn reason(error: &serde_saphyr::Error) -> String {
    UserMessageFormatter.format_message(error).into_owned()
}

/// Writes one document in YAML's block style.
pub(super) fn render(value: &impl Serialize) -> Option<String> {
    // Certificates are long: folded, they would be blocks of their own, which kubectl never writes.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options).ok()
}

impl Tree {
    pub(super) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Tree> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value at `key`, which is added at the end with null if it does not exist. Makes a map of anything else.
    pub(super) fn at(&mut self, key: &str) -> &mut Tree {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        let Self::Map(entries) = self else { unreachable!("it was just made a map") };
        let index = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            entries.push((key.to_owned(), Self::Null));
            entries.len() - 1
        });
        &mut entries[index].1
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Self::Map(entries) = self {
            entries.retain(|(name, _)| name != key);
        }
    }

    /// The list itself, made of anything else.
    pub(super) fn list(&mut self) -> &mut Vec<Tree> {
        if !matches!(self, Self::List(_)) {
            *self = Self::List(Vec::new());
        }
        let Self::List(items) = self else { unreachable!("it was just made a list") };
        items
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::String(value) => serializer.serialize_str(value),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree, E> {
        let finite = Number::from_f64(value);
        finite.map(Tree::Number).ok_or_else(|| E::custom("a number that JSON does not know"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}
