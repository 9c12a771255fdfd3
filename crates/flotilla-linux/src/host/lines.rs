//! Output as lines.

use std::collections::VecDeque;
use std::io::{self, Read};

/// How many lines of a failed program are kept for its error.
const TAIL_LINES: usize = 20;

/// The longest line handed over in one piece, so that a program without line ends cannot fill our memory.
const LONGEST_LINE: usize = 64 * 1024;

/// One line of a running program, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub stream: Stream,
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Where a line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Cuts a stream of bytes into lines.
///
/// A line ends with `\n`, `\r\n`, or `\r` alone: programs that draw progress overwrite their line with `\r`, and
/// each state of it is news.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    line: Vec<u8>,
    /// The last line was ended by `\r`: a `\n` right after it belongs to the same line end.
    after_return: bool,
}

impl Splitter {
    /// Reads to the end, or until `on_line` says false.
    pub(super) fn read_all(
        &mut self,
        input: &mut dyn Read,
        mut on_line: impl FnMut(String) -> bool,
    ) -> io::Result<()> {
        let mut buffer = [0; 8192];
        loop {
            let count = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for &byte in &buffer[..count] {
                if self.push(byte).is_some_and(|line| !on_line(line)) {
                    return Ok(());
                }
            }
        }
        if !self.line.is_empty() {
            on_line(self.take());
        }
        Ok(())
    }

    /// Takes the next byte; gives the line it ends, if it ends one.
    fn push(&mut self, byte: u8) -> Option<String> {
        let after_return = std::mem::take(&mut self.after_return);
        match byte {
            b'\n' if after_return => None,
            b'\n' => Some(self.take()),
            b'\r' if self.line.is_empty() => None,
            b'\r' => {
                self.after_return = true;
                Some(self.take())
            }
            _ => {
                self.line.push(byte);
                (self.line.len() >= LONGEST_LINE).then(|| self.take())
            }
        }
    }

    fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        text
    }
}

/// The last lines of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    pub(super) fn of(mut bytes: &[u8]) -> Self {
        let mut tail = Self::default();
        let read = Splitter::default().read_all(&mut bytes, |text| {
            tail.push(&text);
            true
        });
        read.expect("reading from memory does not fail");
        tail
    }

    pub(super) fn push(&mut self, line: &str) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    /// Whether there is nothing to see in it.
    pub(super) fn is_blank(&self) -> bool {
        self.lines.iter().all(|line| line.trim().is_empty())
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.lines.into_iter().flat_map(|line| (line + "\n").into_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let read = Splitter::default().read_all(&mut bytes, |line| {
            lines.push(line);
            true
        });
        read.unwrap();
        lines
    }

    #[test]
    fn every_kind_of_line_end_ends_one_line() {
        assert_eq!(split(b"a\nb\r\nc\rd"), ["a", "b", "c", "d"]);
        assert_eq!(split(b"a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(split(b"10%\r20%\r\n\r\n"), ["10%", "20%", ""]);
    }

    #[test]
    fn bytes_that_are_not_text_do_not_stop_the_reading() {
        assert_eq!(split(b"caf\xe9\nok\n"), ["caf\u{fffd}", "ok"]);
    }

    #[test]
    fn a_line_without_end_comes_in_pieces() {
        let lines = split(&vec![b'x'; LONGEST_LINE + 1]);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [LONGEST_LINE, 1]);
    }

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let text = (0..50).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let lines = Tail::of(text.as_bytes()).into_lines();
        assert_eq!(lines.len(), TAIL_LINES);
        assert_eq!((lines[0].as_str(), lines[TAIL_LINES - 1].as_str()), ("30", "49"));
    }
}
