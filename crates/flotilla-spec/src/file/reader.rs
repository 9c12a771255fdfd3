//! Takes values out of a tree, and notes all that is wrong on the way.

use std::collections::BTreeMap;

use super::tree::{Source, Tree, Value};
use crate::SpecError;
use crate::error::Place;
use crate::text::edit_distance;

/// What is wrong so far.
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

    /// What is wrong, from the first line to the last.
    pub(super) fn in_order(mut self) -> Vec<SpecError> {
        self.problems.sort_by_key(|error| match error {
            SpecError::At { place, .. } => place.position(),
            _ => Default::default(),
        });
        self.problems
    }

    pub(super) fn place(&self, tree: &Tree) -> Place {
        self.source.place(tree.line, tree.column)
    }

    pub(super) fn complain(&mut self, tree: &Tree, error: SpecError) {
        self.problems.push(error.at(self.place(tree)));
    }

    /// The fields of a map that may have these. Nothing at all is a map without fields.
    pub(super) fn fields<'t>(&mut self, tree: &'t Tree, known: &[&str]) -> Fields<'t> {
        let mut fields = Fields::new();
        for (key, value) in self.pairs(tree) {
            let name = text_of(key).unwrap_or_default();
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

    /// The keys and values of a map that may have any.
    pub(super) fn pairs<'t>(&mut self, tree: &'t Tree) -> Vec<(&'t Tree, &'t Tree)> {
        match &tree.value {
            Value::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
            Value::Nothing => Vec::new(),
            _ => {
                self.complain(tree, SpecError::Shape { wanted: "keys with values" });
                Vec::new()
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

    /// A value that is one piece of text; none if it is not given or wrong.
    pub(super) fn parsed<T>(
        &mut self,
        tree: Option<&Tree>,
        parse: impl FnOnce(&str) -> Result<T, SpecError>,
    ) -> Option<T> {
        let tree = tree?;
        match &tree.value {
            Value::Nothing => None,
            Value::Text(text) => match parse(text) {
                Ok(value) => Some(value),
                Err(error) => {
                    self.complain(tree, error);
                    None
                }
            },
            _ => {
                self.complain(tree, SpecError::Shape { wanted: "text or a number" });
                None
            }
        }
    }

    /// A list of such values.
    pub(super) fn all_parsed<T>(
        &mut self,
        tree: Option<&Tree>,
        parse: impl Fn(&str) -> Result<T, SpecError>,
    ) -> Option<Vec<T>> {
        let items = self.list(tree?);
        Some(items.iter().filter_map(|item| self.parsed(Some(item), &parse)).collect())
    }
}

pub(super) fn text_of(tree: &Tree) -> Option<&str> {
    match &tree.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The one somebody may have meant.
pub(super) fn nearest(given: &str, known: &[&str]) -> Option<String> {
    let given = given.to_lowercase();
    let distance = |name: &&&str| edit_distance(&given, &name.to_lowercase());
    let nearest = known.iter().min_by_key(distance).filter(|name| distance(name) <= 2);
    nearest.map(|name| (*name).to_owned())
}
