//! Where things are in the text of a kubeconfig that is written the usual way: YAML in block style, one key a line.
//!
//! Looks at indentation only. That is enough because in YAML every line of a value, be it a block scalar or a long
//! quoted string, is indented deeper than the key or dash it belongs to. Whatever looks different is not understood,
//! and what is misunderstood is found when the edited text is parsed.

use std::ops::Range;

/// The keys at the top of the first document, as byte positions.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) keys: Vec<Key>,
    /// Where another key can be added: the end of the document.
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    /// What follows the colon in its line, up to the end of the value: no comment, no line end.
    pub(super) value: Range<usize>,
    /// The lines below it, up to the next key.
    pub(super) body: Range<usize>,
}

/// The items of a list in block style.
#[derive(Debug)]
pub(super) struct Items {
    /// How far the dashes are indented.
    pub(super) indent: usize,
    /// Whole lines. Comments between items belong to none, those indented deeper than the dash to the item above.
    pub(super) spans: Vec<Range<usize>>,
    /// Where another item can be added.
    pub(super) end: usize,
}

impl Layout {
    /// Finds the keys, or nothing if the text is not in block style.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut layout = Self { keys: Vec::new(), end: text.len() };
        let mut started = false;
        for Line { start, end, content } in lines(text, 0..text.len()) {
            let marker = content.split([' ', '\t']).next()?;
            match marker {
                "---" if !started && content == marker => started = true,
                "---" | "..." => {
                    layout.end = start;
                    break;
                }
                _ if is_blank(content) || content.starts_with([' ', '\t']) || is_item(content) => {}
                _ => {
                    started = true;
                    layout.keys.push(Key::of(content, start, end)?);
                }
            }
        }
        for index in 0..layout.keys.len() {
            let next = layout.keys.get(index + 1).map_or(layout.end, |next| next.value.start);
            let next_line = text[..next].rfind('\n').map_or(0, |newline| newline + 1);
            layout.keys[index].body.end = next_line;
        }
        Some(layout)
    }

    pub(super) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    fn of(content: &str, start: usize, end: usize) -> Option<Self> {
        let after_quote = match content.chars().next()? {
            quote @ ('"' | '\'') => content[1..].find(quote)? + 2,
            _ => 0,
        };
        let ends_key = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
        let colon = content[after_quote..]
            .match_indices(':')
            .map(|(index, _)| after_quote + index)
            .find(|colon| ends_key(&content[colon + 1..]))?;
        let value = start + colon + 1;
        let length = value_length(&content[colon + 1..])?;
        let name = content[..colon].trim_matches(['"', '\'']).to_owned();
        Some(Self { name, value: value..value + length, body: end..end })
    }

    /// Finds the items below the key, or nothing if what is there is not a list in block style.
    pub(super) fn items(&self, text: &str) -> Option<Items> {
        let mut items = Items { indent: 0, spans: Vec::new(), end: self.body.start };
        for Line { start, end, content } in lines(text, self.body.clone()) {
            let indent = content.len() - content.trim_start_matches(' ').len();
            let inner = &content[indent..];
            let is_deeper = indent > items.indent;
            if inner.trim().is_empty() || is_comment(inner) && !is_deeper {
                continue;
            }
            match items.spans.last_mut() {
                // Below an item to come, such a comment would look like a part of it.
                None if is_comment(inner) => {}
                None if is_item(inner) => {
                    items.indent = indent;
                    items.spans.push(start..end);
                }
                Some(last) if is_deeper => last.end = end,
                Some(_) if indent == items.indent && is_item(inner) => items.spans.push(start..end),
                _ => return None,
            }
            items.end = end;
        }
        Some(items)
    }
}

struct Line<'a> {
    start: usize,
    /// With the line end.
    end: usize,
    /// Without it.
    content: &'a str,
}

fn lines(text: &str, range: Range<usize>) -> impl Iterator<Item = Line<'_>> {
    let mut end = range.start;
    text[range].split_inclusive('\n').map(move |line| {
        let start = end;
        end += line.len();
        Line { start, end, content: line.trim_end_matches(['\r', '\n']) }
    })
}

fn is_blank(content: &str) -> bool {
    content.trim().is_empty() || is_comment(content)
}

fn is_comment(content: &str) -> bool {
    content.starts_with('#')
}

fn is_item(content: &str) -> bool {
    content == "-" || content.starts_with("- ")
}

/// How much of what follows a colon is the value, with the blanks before it; none if it does not end in the line.
fn value_length(rest: &str) -> Option<usize> {
    let value = rest.trim_start();
    let blanks = rest.len() - value.len();
    let length = match value.chars().next() {
        None | Some('#') => return Some(0),
        Some('\'') => 1 + closing(&value[1..], |rest| rest.strip_prefix("''"), '\'')?,
        Some('"') => 1 + closing(&value[1..], |rest| rest.strip_prefix('\\').map(skip_one), '"')?,
        Some(_) => before_comment(value).trim_end().len(),
    };
    Some(blanks + length)
}

/// The length up to and with the closing quote; `escaped` gives what follows an escape.
fn closing<'a>(value: &'a str, escaped: impl Fn(&'a str) -> Option<&'a str>, quote: char) -> Option<usize> {
    let mut rest = value;
    loop {
        if let Some(after) = escaped(rest) {
            rest = after;
        } else if rest.starts_with(quote) {
            return Some(value.len() - rest.len() + 1);
        } else if rest.is_empty() {
            return None;
        } else {
            rest = skip_one(rest);
        }
    }
}

fn skip_one(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

/// A `#` begins a comment only after a blank.
fn before_comment(value: &str) -> &str {
    let comment = [" #", "\t#"].iter().filter_map(|start| value.find(start)).min();
    &value[..comment.unwrap_or(value.len())]
}
