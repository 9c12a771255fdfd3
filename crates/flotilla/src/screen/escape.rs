//! Text that somebody else wrote, made safe to look at: on a terminal, control characters move the cursor, change the title, type
//! answers.

use std::fmt::Write;

/// Replaces what is no visible text by what it is called: `\x1b`, `\u{202e}`. Takes a stream in pieces; only the ends of lines
/// and tabs stay.
#[derive(Debug, Default)]
pub(crate) struct Escape {
    /// The beginning of a character whose rest is still to come.
    pending: Vec<u8>,
}

impl Escape {
    /// What can be shown of this piece.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.pending);
        let mut shown = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            chunk.valid().chars().for_each(|c| push(&mut shown, c));
            if chunks.peek().is_none() && is_beginning(chunk.invalid()) {
                self.pending = chunk.invalid().to_vec();
            } else {
                chunk.invalid().iter().for_each(|byte| push_byte(&mut shown, *byte));
            }
        }
        shown
    }

    /// What is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> String {
        let mut shown = String::new();
        for byte in std::mem::take(&mut self.pending) {
            push_byte(&mut shown, byte);
        }
        shown
    }
}

/// The same for a whole text.
pub(crate) fn text(text: &str) -> String {
    let mut escape = Escape::default();
    let shown = escape.feed(text.as_bytes());
    shown + &escape.finish()
}

/// The same for a message of ours, which may have colours and words of others in it: colours stay.
pub(crate) fn message(message: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find('\x1b') {
        let (before, sequence) = rest.split_at(at);
        shown.push_str(&text(before));
        let length = colour(sequence).unwrap_or(0);
        shown.push_str(&sequence[..length]);
        let after = if length == 0 {
            push(&mut shown, '\x1b');
            1
        } else {
            length
        };
        rest = &sequence[after..];
    }
    shown + &text(rest)
}

/// The length of the sequence at the beginning if it only sets colours: `ESC [ 1 ; 31 m`.
fn colour(sequence: &str) -> Option<usize> {
    let parameters = sequence.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

fn push(shown: &mut String, c: char) {
    match c {
        '\n' | '\t' => shown.push(c),
        c if c.is_ascii_control() => push_byte(shown, c as u8),
        c if c.is_control() || is_direction(c) => {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
        c => shown.push(c),
    }
}

fn push_byte(shown: &mut String, byte: u8) {
    let _ = write!(shown, "\\x{byte:02x}");
}

/// Marks that turn the direction of text around, so that it reads as something else.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether these bytes may be the first of a longer character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        assert_eq!(text("plain ü\ttext\n"), "plain ü\ttext\n");
        assert_eq!(text("\x1b]0;title\x07 \x1b[2J\r\x7f"), r"\x1b]0;title\x07 \x1b[2J\x0d\x7f");
        assert_eq!(text("\u{9b}31m \u{202e}txt.exe"), r"\u{9b}31m \u{202e}txt.exe");
    }

    #[test]
    fn our_own_colours_stay_in_messages() {
        assert_eq!(message("\x1b[1;31merror\x1b[0m: \x1b[2J\x1b"), "\x1b[1;31merror\x1b[0m: \\x1b[2J\\x1b");
        assert_eq!(message("plain"), "plain");
    }

    #[test]
    fn characters_may_come_in_pieces() {
        let mut escape = Escape::default();
        let bytes = "aü€".as_bytes();
        let shown: String = bytes.iter().map(|byte| escape.feed(&[*byte])).collect();
        assert_eq!(shown + &escape.finish(), "aü€");
        assert_eq!(escape.feed(&[0xff, b'a', 0xe2, 0x82]), r"\xffa");
        assert_eq!(escape.finish(), r"\xe2\x82");
    }
}
