//! Changes the text of a kubeconfig and leaves everything else in it as it is.
//!
//! Block style is edited line by line. JSON and other forms are written again from their content: nothing is lost but
//! comments and form. Both ways, the outcome is parsed and must say exactly what the changes ask for.

use std::ops::Range;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;

use super::change::{self, Change, LISTS};
use super::layout::{Items, Layout};
use super::tree::{self, Tree};

/// The changed text; none if there is no way to write it that reads back as it should.
pub(super) fn edit(text: &str, documents: &[Tree], changes: &[Change]) -> Option<String> {
    let mut expected = documents.to_vec();
    change::apply(&mut expected[0], changes);
    let reads_back = |text: &String| tree::parse(text).is_ok_and(|documents| documents == expected);
    edit_lines(text, &documents[0], changes)
        .filter(reads_back)
        .or_else(|| write_anew(text, &expected).filter(reads_back))
}

/// A piece of text in place of another.
struct Patch {
    range: Range<usize>,
    text: String,
}

fn edit_lines(text: &str, config: &Tree, changes: &[Change]) -> Option<String> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut text = text.to_owned();
    // So that whatever is added begins in a line of its own.
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(line_end);
    }
    let layout = Layout::of(&text)?;
    let page = Page { text: &text, layout, line_end };
    let mut patches = Vec::new();
    for list in LISTS {
        patches.extend(page.list_patches(config, list, changes)?);
    }
    let end = page.layout.end;
    for change in changes {
        patches.push(match change {
            Change::Set { key, value } => match page.layout.key(key) {
                Some(there) => Patch { range: there.value.clone(), text: format!(" {}", scalar(value)?) },
                None => Patch { range: end..end, text: format!("{key}: {}{line_end}", scalar(value)?) },
            },
            Change::Append { list, item } if page.layout.key(list).is_none() => {
                let item = page.item(item, page.usual_indent())?;
                Patch { range: end..end, text: format!("{list}:{line_end}{item}") }
            }
            Change::Append { .. } | Change::Replace { .. } | Change::Remove { .. } => continue,
        });
    }
    Some(apply(&text, patches))
}

/// A text in block style and what is known of it.
struct Page<'a> {
    text: &'a str,
    layout: Layout,
    line_end: &'static str,
}

impl Page<'_> {
    /// What the changes do to a list that is in the text.
    fn list_patches(&self, config: &Tree, list: &'static str, changes: &[Change]) -> Option<Vec<Patch>> {
        let mut patches = Vec::new();
        let Some(key) = self.layout.key(list) else { return Some(patches) };
        if !changes.iter().any(|change| change.list() == Some(list)) {
            return Some(patches);
        }
        let Items { indent, spans, end } = key.items(self.text)?;
        if spans.len() != change::items(config, list).ok()?.len() {
            return None;
        }
        let mut left = spans.len();
        for change in changes.iter().filter(|change| change.list() == Some(list)) {
            patches.push(match change {
                Change::Replace { index, item, .. } => {
                    Patch { range: spans[*index].clone(), text: self.item(item, indent)? }
                }
                Change::Remove { index, .. } => {
                    left -= 1;
                    Patch { range: spans[*index].clone(), text: String::new() }
                }
                Change::Append { item, .. } => {
                    left += 1;
                    let indent = if spans.is_empty() { self.usual_indent() } else { indent };
                    Patch { range: end..end, text: self.item(item, indent)? }
                }
                Change::Set { .. } => continue,
            });
        }
        // An empty list is `[]` behind the key; that goes when items come, and comes when they go.
        if spans.is_empty() {
            patches.push(Patch { range: key.value.clone(), text: String::new() });
        } else if left == 0 {
            patches.push(Patch { range: key.value.end..key.value.end, text: " []".to_owned() });
        }
        Some(patches)
    }

    /// How far the user, or kubectl, indents the dashes of lists.
    fn usual_indent(&self) -> usize {
        let items = LISTS.iter().filter_map(|list| self.layout.key(list)?.items(self.text));
        items.filter(|items| !items.spans.is_empty()).map(|items| items.indent).next().unwrap_or(0)
    }

    /// The lines of one item of a list.
    fn item(&self, item: &Tree, indent: usize) -> Option<String> {
        let margin = " ".repeat(indent);
        let rendered = tree::render(&[item])?;
        Some(rendered.lines().fold(String::new(), |lines, line| lines + &margin + line + self.line_end))
    }
}

fn scalar(value: &str) -> Option<String> {
    Some(tree::render(&value)?.trim_end().to_owned())
}

/// Puts all patches in. Those at the same place come in their order.
fn apply(text: &str, mut patches: Vec<Patch>) -> String {
    patches.sort_by_key(|patch| patch.range.start);
    let mut out = String::new();
    let mut done = 0;
    for Patch { range, text: patch } in patches {
        out.push_str(&text[done..range.start]);
        out.push_str(&patch);
        done = range.end;
    }
    out + &text[done..]
}

fn write_anew(text: &str, documents: &[Tree]) -> Option<String> {
    // YAML in flow style begins with a brace too.
    if text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return write_json(text, &documents[0]);
    }
    let rendered: Option<Vec<String>> = documents.iter().map(tree::render).collect();
    Some(rendered?.join("---\n"))
}

/// Writes JSON the way it was: in one line, or with the same indentation.
fn write_json(text: &str, document: &Tree) -> Option<String> {
    let Some(second) = text.trim().lines().nth(1) else { return serde_json::to_string(document).ok() };
    let indent = &second[..second.len() - second.trim_start().len()];
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(indent.as_bytes());
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter)).ok()?;
    bytes.push(b'\n');
    String::from_utf8(bytes).ok()
}
