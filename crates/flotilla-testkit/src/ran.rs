//! What a program left behind.

use std::fmt;

use serde_json::Value;

use crate::filter::Filter;

/// How a program behind pipes ended, and what it wrote.
///
/// Displayed, it is what a snapshot wants: all three parts, with what differs from run to run replaced.
#[derive(Debug)]
pub struct Ran {
    /// The exit status; 128 + N if signal N ended it, as in a shell.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    pub(crate) filter: Filter,
}

impl Ran {
    /// Standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{self}"))
    }

    /// Standard output as one JSON value a line.
    pub fn events(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The run itself, if it went well.
    #[must_use]
    pub fn success(self) -> Self {
        assert!(self.status == 0, "it failed:\n{self}");
        self
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "status: {}", self.status)?;
        write!(f, "----- stdout -----\n{}", self.filter.apply(&self.stdout))?;
        write!(f, "----- stderr -----\n{}", self.filter.apply(&self.stderr))
    }
}

/// How a program on a terminal ended, and what was to be seen.
#[derive(Debug)]
pub struct Seen {
    /// The rows of the terminal in the end, without the empty ones below.
    pub screen: Vec<String>,
    pub(crate) ran: Ran,
}

impl Seen {
    /// As in [`Ran`].
    pub fn status(&self) -> i32 {
        self.ran.status
    }

    /// Everything that was sent to the terminal, colour codes and all.
    pub fn sent(&self) -> &str {
        &self.ran.stdout
    }

    /// Whether any text was coloured, bold or dim.
    pub fn has_colours(&self) -> bool {
        let mut codes = self.sent().split("\x1b[").skip(1).filter_map(|code| code.split_once('m'));
        codes.any(|(code, _)| {
            // `0` takes back what was set; what is no number is no colour.
            code.chars().all(|c| c.is_ascii_digit() || c == ';') && !matches!(code, "" | "0")
        })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "status: {}\n----- terminal -----", self.status())?;
        write!(f, "{}", self.ran.filter.apply(&self.screen.join("\n")))
    }
}
