//! Reads values from a tree and collects all errors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::tree::{Source, Tree, Value};
use crate::SpecError;
use crate::error::Place;
use crate::text::nearest;

/// The errors so far.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    source: Source<'a>,
    pub(super) problems: Vec<SpecError>,
}

/// The fields of a map, by their names.
pub(super) type Fields<'t> = BTreeMap<&'t str, &'t Tree>;

impl<'a> Reader<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self { source, problems: Vec::new() }
    }

    pub(super) fn place(&self, tree: &Tree) -> Place {
        self.source.place(tree.line, tree.column)
    }

    pub(super) fn complain(&mut self, tree: &Tree, error: SpecError) {
        self.problems.push(error.at(self.place(tree)));
    }

    /// The fields of a map with these keys. An empty value is a map without fields.
    pub(super) fn fields<'t>(&mut self, tree: &'t Tree, known: &[&str]) -> Fields<'t> {
        let mut fields = Fields::new();
        for (key, value) in self.pairs(tree) {
            let name = key.text().unwrap_or_default();
            if known.contains(&name) {
                fields.insert(name, value);
            } else {
                let error = SpecError::UnknownKey {
                    given: name.to_owned(),
                    known: known.join(", "),
                    nearest: nearest(name, known),
                };
                self.complain(key, error);
            }
        }
        fields
    }

    /// The keys and values of a map with any keys.
    pub(super) fn pairs<'t>(&mut self, tree: &'t Tree) -> Vec<(&'t Tree, &'t Tree)> {
        match &tree.value {
            Value::Map(pairs) => {
                self.complain_of_twice(pairs);
                pairs.iter().map(|(key, value)| (key, value)).collect()
            }
            Value::Nothing => Vec::new(),
            _ => {
                self.complain(tree, SpecError::Shape { wanted: "keys with values" });
                Vec::new()
            }
        }
    }

    fn complain_of_twice(&mut self, pairs: &[(Tree, Tree)]) {
        let mut seen = BTreeSet::new();
        for (key, _) in pairs {
            if let Some(given) = key.text().filter(|given| !seen.insert(*given)) {
                self.complain(key, SpecError::DuplicateKey { given: given.to_owned() });
            }
        }
    }

    pub(super) fn list<'t>(&mut self, tree: &'t Tree) -> &'t [Tree] {
        match &tree.value {
            Value::List(items) => items,
            Value::Nothing => &[],
            _ => {
                self.complain(tree, SpecError::Shape { wanted: "a list" });
                &[]
            }
        }
    }

    /// A value that is one scalar; none if it is missing or invalid.
    pub(super) fn parsed<T>(
        &mut self,
        tree: Option<&Tree>,
        parse: impl FnOnce(&str) -> Result<T, SpecError>,
    ) -> Option<T> {
        self.item(tree.filter(|tree| !tree.is_nothing())?, parse)
    }

    /// A value that must not be empty: an empty one would be dropped silently.
    fn item<T>(&mut self, tree: &Tree, parse: impl FnOnce(&str) -> Result<T, SpecError>) -> Option<T> {
        let Some(text) = tree.text() else {
            self.complain(tree, SpecError::Shape { wanted: "text or a number" });
            return None;
        };
        parse(text).map_err(|error| self.complain(tree, error)).ok()
    }

    /// A list of such values.
    pub(super) fn all_parsed<T>(
        &mut self,
        tree: Option<&Tree>,
        parse: impl Fn(&str) -> Result<T, SpecError>,
    ) -> Option<Vec<T>> {
        let items = self.list(tree?);
        Some(items.iter().filter_map(|item| self.item(item, &parse)).collect())
    }

    /// The entries of a map, each parsed from its key and value.
    pub(super) fn entries<T>(
        &mut self,
        tree: Option<&Tree>,
        parse: impl Fn(&str, &str) -> Result<BTreeMap<String, T>, SpecError>,
    ) -> BTreeMap<String, T> {
        let mut entries = BTreeMap::new();
        for (key, value) in tree.map(|tree| self.pairs(tree)).unwrap_or_default() {
            let key = key.text().unwrap_or_default();
            entries.extend(self.item(value, |value| parse(key, value)).unwrap_or_default());
        }
        entries
    }

    /// Any value at all.
    pub(super) fn json(&mut self, tree: &Tree) -> Json {
        match &tree.value {
            Value::Nothing => Json::Null,
            Value::Text(text) => text.as_str().into(),
            Value::Bare(_, read) => read.clone(),
            Value::List(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Map(pairs) => {
                self.complain_of_twice(pairs);
                let fields = pairs.iter().map(|(key, value)| (self.key(key), self.json(value)));
                Json::Object(fields.collect())
            }
        }
    }

    fn key(&mut self, tree: &Tree) -> String {
        let key = tree.text();
        if key.is_none() {
            self.complain(tree, SpecError::Shape { wanted: "text or a number" });
        }
        key.unwrap_or_default().to_owned()
    }
}
