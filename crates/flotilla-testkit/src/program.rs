//! Programs that a test makes and runs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program, or another one in its place. It can be run at once.
///
/// A process of its own writes it. A descriptor of ours would also be open in every child that other tests start at that
/// moment, until it runs its program, and the kernel runs no file that somebody has open for writing ("text file busy").
#[expect(clippy::disallowed_methods, reason = "nothing of it is looked at but whether it succeeds")]
pub fn write_program(path: &Path, text: &str) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.env("PATH", "/usr/bin:/bin").spawn().expect("a shell");
    let mut input = shell.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("the shell reads it");
    drop(input);
    assert!(shell.wait().expect("the shell's end").success(), "cannot write {}", path.display());
}
