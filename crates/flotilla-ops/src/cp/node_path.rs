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
/// How many names a tree may have: whoever lists more wants our memory.
const MOST: usize = 1_000_000;
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
        if output.is_empty() {
            return Ok(None);
        }
        kind(&output).map(Some).map_err(|error| self.failed("read", error))
    }

    /// The directory itself and all in it, each directory before what is in it. A node may say what it likes: only names that
    /// stay in the directory are believed.
    pub(super) async fn list(&self) -> Result<Vec<Entry>, EngineError> {
        // First all names, which may have any character but NUL in them; then their modes, in the same order.
        let line = "cd -- \"$1\" && find . -print0 && printf '\\0' && exec find . -exec stat -c %f {} +";
        let output = self.sh(line, [self.path.clone()]).await?;
        let mut entries = listed(&output, MOST).map_err(|error| self.failed("read", error))?;
        let mut links: Vec<_> =
            entries.iter_mut().filter(|entry| matches!(entry.kind, Kind::Link { .. })).collect();
        for some in links.chunks_mut(AT_ONCE) {
            let line = "for link; do readlink -n -- \"$link\" && printf '\\0' || exit; done";
            let output = self.sh(line, some.iter().map(|entry| self.join(&entry.path).path)).await?;
            let mut targets = output.split_terminator('\0');
            for entry in some {
                let to = targets.next().ok_or_else(|| self.failed("read", changed()))?.to_owned();
                entry.kind = Kind::Link { to };
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
}

/// What a node lists: all names, then their modes in the same order.
fn listed(output: &str, most: usize) -> io::Result<Vec<Entry>> {
    let (names, modes) = output.split_once("\0\0").ok_or_else(changed)?;
    let mut entries = Vec::new();
    let mut modes = modes.lines();
    for name in names.split('\0') {
        if entries.len() == most {
            return Err(io::Error::other(format!("it has more than {most} files")));
        }
        let kind = kind(modes.next().ok_or_else(changed)?)?;
        // The directory itself is a dot.
        let path = if name == "." { "" } else { name.strip_prefix("./").unwrap_or(name) }.to_owned();
        if !is_plain(&path) {
            return Err(io::Error::other(format!("it lists {path:?}, which is not a path in it")));
        }
        entries.push(Entry { path, kind });
    }
    Ok(entries)
}

/// From a mode in hexadecimal digits, type and all.
fn kind(mode: &str) -> io::Result<Kind> {
    let raw = u32::from_str_radix(mode.trim(), 16).map_err(|_| changed())?;
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
fn changed() -> io::Error {
    io::Error::other("it changed meanwhile")
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

    #[test]
    fn programs_that_run_as_their_owner_lose_that() {
        assert_eq!(kind("8ded").unwrap(), Kind::File { mode: 0o755 });
        assert_eq!(kind("43ff").unwrap(), Kind::Folder { mode: 0o777 });
        assert_eq!(kind("2190").unwrap(), Kind::Other);
    }

    #[test]
    fn a_list_has_a_mode_for_each_name_and_an_end() {
        let list = ".\0./a\0./l\0\x0041ed\n81a4\na1ff\n";
        let paths: Vec<_> = listed(list, 3).unwrap().into_iter().map(|entry| entry.path).collect();
        assert_eq!(paths, ["", "a", "l"]);
        assert_eq!(listed(list, 2).unwrap_err().to_string(), "it has more than 2 files");
        for bad in [".\0./a\0\x0041ed\n", ".\0./a", ".\0../a\0\x0041ed\n81a4\n", ".\0\0x\n"] {
            assert!(listed(bad, 9).is_err(), "{bad:?}");
        }
    }
}
