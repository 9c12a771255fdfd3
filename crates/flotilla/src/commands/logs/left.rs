//! The logs of a node that does not run, as its disk has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flotilla_engine::EngineError;

use crate::screen::Screen;

/// Shows the last lines of each, as `tail` would in the node. `var` is the node's `/var`.
pub(super) fn show(screen: &Screen, var: &Path, lines: u32) -> Result<(), EngineError> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    for log in logs(var)? {
        let below = log.strip_prefix(var).unwrap_or(&log);
        let bytes = fs::read(&log).map_err(|source| failed(&log, source))?;
        let text = String::from_utf8_lossy(&bytes);
        screen.line(&format!("==> /var/{} <==\n{}\n", below.display(), last(&text, lines)));
    }
    Ok(())
}

/// PID 1's own logs and those of the containers in kube-system.
fn logs(var: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let mut logs = files(&var.join("log/flotilla"))?;
    for pod in folders(&var.join("log/pods"))? {
        if pod.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kube-system_")) {
            for container in folders(&pod)? {
                logs.extend(files(&container)?);
            }
        }
    }
    logs.retain(|log| log.extension().is_some_and(|extension| extension == "log"));
    Ok(logs)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    below(folder, fs::FileType::is_file)
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    below(folder, fs::FileType::is_dir)
}

/// What is in a folder and of that kind, by name. Links are neither: a node cannot send us into the host's files.
fn below(folder: &Path, is_wanted: fn(&fs::FileType) -> bool) -> Result<Vec<PathBuf>, EngineError> {
    let items = match fs::read_dir(folder) {
        // It never got that far.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        items => items.map_err(|source| failed(folder, source))?,
    };
    let mut found: Vec<_> = items
        .filter_map(Result::ok)
        .filter(|item| item.file_type().is_ok_and(|kind| is_wanted(&kind)))
        .map(|item| item.path())
        .collect();
    found.sort();
    Ok(found)
}

fn last(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn failed(path: &Path, source: io::Error) -> EngineError {
    EngineError::Io { action: "read", path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_are_found_and_links_are_not_followed() {
        let var = tempfile::tempdir().unwrap();
        let names = [
            "log/flotilla/kubelet.log",
            "log/flotilla/kubelet.log.1",
            "log/pods/kube-system_a_1/main/0.log",
            "log/pods/default_b_2/main/0.log",
        ];
        for name in names {
            let path = var.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("/etc/hostname", var.path().join("log/flotilla/host.log")).unwrap();
        let found: Vec<_> = logs(var.path()).unwrap();
        assert_eq!(found, [names[0], names[2]].map(|name| var.path().join(name)));
        assert!(logs(&var.path().join("nothing")).unwrap().is_empty());
    }

    #[test]
    fn the_last_lines_are_shown() {
        assert_eq!(last("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last("a\n", 2), "a");
        assert_eq!(last("", 2), "");
    }
}
