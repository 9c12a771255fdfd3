//! Config files of other tools: recognised, and written as a cluster file as far as there are counterparts.

mod fields;
mod k3d;
mod kind;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde_json::{Map, Value, json};

use crate::Role;
use crate::document::{API_VERSION, KIND};

pub use fields::FIELDS;

/// A tool with config files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Kind,
    K3d,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "kind",
            Self::K3d => "k3d",
        })
    }
}

/// A field of a tool's config file.
#[derive(Debug)]
pub struct Field {
    pub tool: Tool,
    /// Its path, with `[]` behind lists.
    pub theirs: &'static str,
    /// Its counterpart, in Markdown.
    pub ours: &'static str,
    /// Whether the translation has it. Otherwise a comment names the counterpart.
    pub is_translated: bool,
}

/// The tool whose config file this is, and the same cluster as a cluster file.
pub(crate) fn translate(text: &str) -> Option<(Tool, String)> {
    // Nearly every file is ours, which is parsed elsewhere.
    if !text.contains("kind.x-k8s.io/") && !text.contains("k3d.io/") {
        return None;
    }
    let config: Value = serde_saphyr::from_str(text).ok()?;
    let version = config["apiVersion"].as_str()?;
    let tool = match config["kind"].as_str()? {
        "Cluster" if version.starts_with("kind.x-k8s.io/") => Tool::Kind,
        "Simple" if version.starts_with("k3d.io/") => Tool::K3d,
        _ => return None,
    };
    let mut cluster = match tool {
        Tool::Kind => kind::read(&config),
        Tool::K3d => k3d::read(&config),
    };
    cluster.comments.splice(..0, without_translation(tool, &config));
    Some((tool, cluster.to_yaml()))
}

/// What a tool's file says of a cluster.
#[derive(Debug, Default)]
struct Cluster {
    name: String,
    /// Keys next to `nodes`.
    settings: Vec<(&'static str, Value)>,
    nodes: Vec<Node>,
    /// What the translation lacks.
    comments: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct Node {
    role: Role,
    settings: Vec<(&'static str, Value)>,
}

impl Node {
    fn new(role: Role) -> Self {
        Self { role, settings: Vec::new() }
    }

    /// Adds an entry to a list.
    fn push(&mut self, key: &'static str, entry: String) {
        match self.settings.iter_mut().find(|(known, _)| *known == key) {
            Some((_, Value::Array(list))) => list.push(entry.into()),
            _ => self.settings.push((key, json!([entry]))),
        }
    }

    /// Adds an entry to a map.
    fn insert(&mut self, key: &'static str, name: &str, value: Value) {
        match self.settings.iter_mut().find(|(known, _)| *known == key) {
            Some((_, Value::Object(map))) => {
                map.insert(name.to_owned(), value);
            }
            _ => self.settings.push((key, json!({ name: value }))),
        }
    }
}

impl Cluster {
    fn set(&mut self, key: &'static str, value: Value) {
        self.settings.push((key, value));
    }

    /// Sets these keys of `network`, as far as they are given.
    fn set_network(&mut self, keys: &[(&str, &Value)]) {
        let given = keys.iter().filter(|(_, value)| !value.is_null());
        let network: Map<String, Value> =
            given.map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect();
        if !network.is_empty() {
            self.set("network", network.into());
        }
    }

    /// Sets the port of the API server. With 0 and -1, kind chooses any port: here none needs to be chosen.
    fn set_api_port(&mut self, port: &Value) {
        if let Some(port) = text(port).and_then(|port| port.parse::<u16>().ok()).filter(|port| *port != 0) {
            self.set("apiServer", json!({ "port": port }));
        }
    }

    fn to_yaml(&self) -> String {
        let mut yaml = String::new();
        for comment in &self.comments {
            let _ = writeln!(yaml, "# {comment}");
        }
        let _ = write!(yaml, "apiVersion: {API_VERSION}\nkind: {KIND}\nname: {}\n", flow(&json!(self.name)));
        for (key, value) in &self.settings {
            let _ = writeln!(yaml, "{key}: {}", flow(value));
        }
        if !self.nodes.is_empty() {
            yaml.push_str("nodes:\n");
        }
        for alike in self.nodes.chunk_by(|one, other| one == other) {
            let _ = writeln!(yaml, "- role: {}", flow(&json!(alike[0].role)));
            if alike.len() > 1 {
                let _ = writeln!(yaml, "  count: {}", alike.len());
            }
            for (key, value) in &alike[0].settings {
                let _ = writeln!(yaml, "  {key}: {}", flow(value));
            }
        }
        yaml
    }
}

/// A value on one line. A plain word has no quotes.
fn flow(value: &Value) -> String {
    match value {
        Value::String(word) if is_plain(word) => word.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}: {}", flow(&json!(key)), flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether YAML reads the word as text without quotes, also in a list or a map.
fn is_plain(word: &str) -> bool {
    let is_text = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let is_value = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_safe = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
    is_text && word.chars().all(is_safe) && !is_value.contains(&word.to_ascii_lowercase().as_str())
}

/// A comment for each field that the translation leaves out.
fn without_translation(tool: Tool, config: &Value) -> Vec<String> {
    let mut paths = BTreeSet::new();
    list_paths(config, "", &mut paths);
    let covers = |field: &Field, path: &str| {
        path.strip_prefix(field.theirs)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with("[]"))
    };
    let fields = || FIELDS.iter().filter(|field| field.tool == tool);
    // The first field that has a path is the most specific one.
    let field_of = |path: &String| fields().find(|field| covers(field, path)).map(|field| field.theirs);
    let has_path = |field: &&Field| paths.iter().any(|path| field_of(path) == Some(field.theirs));
    let known = fields().filter(|field| !field.is_translated).filter(has_path);
    let known = known.map(|field| format!("left out: {}: {}", field.theirs, field.ours.replace('`', "")));
    let unknown = paths.iter().filter(|path| field_of(path).is_none());
    known.chain(unknown.map(|path| format!("left out: {}", one_line(path)))).collect()
}

/// Text from a file, safe in a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(200).collect()
}

fn list_paths(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                list_paths(value, &path, paths);
            }
        }
        Value::Array(items) => {
            for item in items {
                list_paths(item, &format!("{path}[]"), paths);
            }
        }
        _ => {
            paths.insert(path.to_owned());
        }
    }
}

/// The items of a list that may be missing.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A number or a text, as text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
