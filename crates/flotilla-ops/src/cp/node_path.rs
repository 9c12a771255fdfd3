//! Files of a node, by its own programs and [`Guest`](flotilla_core::Guest).

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::{Cmd, DriverError, GuestError, Machine, Writer};
use flotilla_engine::EngineError;

use super::end::{Entry, Kind};

/// How many arguments a program gets at once.
const AT_ONCE: usize = 200;
/// How long a look at a whole tree may take.
const LIMIT: Duration = Duration::from_mins(30);

/// A path in a node.
pub(super) struct NodePath {
    pub(super) machine: Arc<dyn Machine>,
    pub(super) path: String,
}

impl NodePath {
    pub(super) fn join(&self, below: &str) -> Self {
        let folder = self.path.trim_end_matches('/');
        let path = if below.is_empty() { self.path.clone() } else { format!("{folder}/{below}") };
        Self { machine: Arc::clone(&self.machine), path }
    }

    pub(super) fn failed(&self, action: &'static str, source: io::Error) -> EngineError {
        let (node, path) = (self.machine.name().to_string(), self.path.clone());
        driver(GuestError::File { node, action, path, source })
    }

    /// What is there, behind links; none if there is nothing.
    pub(super) async fn look(&self) -> Result<Option<Kind>, EngineError> {
        let line = "[ -e \"$1\" ] || exit 0; exec stat -L -c %f -- \"$1\"";
        let output = self.sh(line, [self.path.clone()]).await?;
        if output.is_empty() { Ok(None) } else { Ok(Some(self.kind(&output)?)) }
    }

    /// The directory itself and all in it, each directory before what is in it. A node may say what it likes: only names that
    /// stay in the directory are believed.
    pub(super) async fn list(&self) -> Result<Vec<Entry>, EngineError> {
        // First all names, which may have any character but NUL in them; then their modes, in the same order.
        let line = "cd -- \"$1\" && find . -print0 && printf '\\0' && exec find . -exec stat -c %f {} +";
        let output = self.sh(line, [self.path.clone()]).await?;
        let (names, modes) = output.split_once("\0\0").ok_or_else(|| self.changed())?;
        let mut entries = Vec::new();
        let mut modes = modes.lines();
        for name in names.split('\0') {
            let kind = self.kind(modes.next().ok_or_else(|| self.changed())?)?;
            // The directory itself is a dot.
            let path = if name == "." { "" } else { name.strip_prefix("./").unwrap_or(name) }.to_owned();
            if !is_plain(&path) {
                let what = format!("it lists {path:?}, which is not a path in it");
                return Err(self.failed("read", io::Error::other(what)));
            }
            entries.push(Entry { path, kind });
        }
        for entry in &mut entries {
            if let Kind::Link { to } = &mut entry.kind {
                *to = self.sh("exec readlink -n -- \"$1\"", [self.join(&entry.path).path]).await?;
            }
        }
        Ok(entries)
    }

    /// A directory that already exists keeps its mode.
    pub(super) async fn make_folders(&self, entries: &[Entry]) -> Result<(), EngineError> {
        let line = "while [ $# -gt 0 ]; do [ -d \"$2\" ] || { mkdir -p -- \"$2\" && chmod \"$1\" \"$2\"; } || exit; shift 2; done";
        let folders = entries.iter().filter_map(|entry| match entry.kind {
            Kind::Folder { mode } => Some([format!("{mode:o}"), self.join(&entry.path).path]),
            _ => None,
        });
        self.in_pairs(line, folders).await
    }

    pub(super) async fn make_links(&self, entries: &[Entry]) -> Result<(), EngineError> {
        let line = "while [ $# -gt 0 ]; do ln -sfn -- \"$1\" \"$2\" || exit; shift 2; done";
        let links = entries.iter().filter_map(|entry| match &entry.kind {
            Kind::Link { to } => Some([to.clone(), self.join(&entry.path).path]),
            _ => None,
        });
        self.in_pairs(line, links).await
    }

    pub(super) async fn write_from(&self, file: File, mode: u32) -> Result<(), EngineError> {
        self.machine.guest().copy_in(Box::new(file), &self.path, mode).await.map_err(driver)
    }

    pub(super) async fn read_into(&self, to: Writer) -> Result<(), EngineError> {
        self.machine.guest().copy_out(&self.path, to).await.map(drop).map_err(driver)
    }

    async fn in_pairs(
        &self,
        line: &str,
        pairs: impl Iterator<Item = [String; 2]>,
    ) -> Result<(), EngineError> {
        let arguments: Vec<_> = pairs.flatten().collect();
        for some in arguments.chunks(AT_ONCE) {
            self.sh(line, some.iter().cloned()).await?;
        }
        Ok(())
    }

    /// Runs a line of the node's shell with these arguments. Gives what it says.
    async fn sh(
        &self,
        line: &str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<String, EngineError> {
        let argv = ["sh", "-c", line, "sh"].map(str::to_owned).into_iter().chain(arguments);
        let output = self.machine.guest().run(Cmd::new(argv).within(LIMIT)).await.map_err(driver)?;
        String::from_utf8(output.stdout)
            .map_err(|_| self.failed("read", io::Error::other("a file name is not UTF-8")))
    }

    /// From a mode in hexadecimal digits, type and all.
    fn kind(&self, mode: &str) -> Result<Kind, EngineError> {
        let raw = u32::from_str_radix(mode.trim(), 16).map_err(|_| self.changed())?;
        // Programs that run as their owner are for the node alone.
        let mode = raw & 0o777;
        Ok(match raw & 0o170_000 {
            0o040_000 => Kind::Folder { mode },
            0o100_000 => Kind::File { mode },
            0o120_000 => Kind::Link { to: String::new() },
            _ => Kind::Other,
        })
    }

    /// Somebody else writes there.
    fn changed(&self) -> EngineError {
        self.failed("read", io::Error::other("it changed meanwhile"))
    }
}

/// Whether a path has only names of files, and so leads nowhere else.
fn is_plain(path: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    path.is_empty() || path.split('/').all(is_name)
}

fn driver(error: GuestError) -> EngineError {
    EngineError::Driver(DriverError::Guest(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_stay_in_the_directory_are_believed() {
        for plain in ["", "file", "a/b/c", "..a", "a..", "...", "\u{1b}[2J"] {
            assert!(is_plain(plain), "{plain:?}");
        }
        for bad in ["/", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", "./a", "."] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}
