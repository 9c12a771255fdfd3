//! What a node can change is opened by one module, `flotilla_linux::enter::Files`, and removed by another, `flotilla_linux::tree`:
//! both stay below a directory whatever links, pipes and devices a node puts there. Here only the modules below use files of
//! the host directly, for the reason that is given.

use std::fs;
use std::path::Path;

/// Modules that use the host's files, and which.
const ALLOWED: &[(&str, &str)] = &[
    ("driver/boot.rs", "whether a bundle exists"),
    ("driver/disk.rs", "the host's own files beside a node's disk, and a new disk that no node has seen"),
    ("driver/facts.rs", "/proc of the host"),
    ("driver/machine.rs", "the list of nodes' directories; memory files"),
    ("driver/mounts.rs", "directories that a person names"),
    ("driver/record.rs", "the host's own file beside a node's disk"),
    ("driver/remove.rs", "whether a node's directory exists"),
    ("driver/store.rs", "the bundle's image store, and a new disk that no node has seen"),
    ("examine/facts.rs", "/proc and /sys of the host"),
    ("ids.rs", "/etc and /proc of the host"),
    ("names.rs", "the state directory's real path"),
    ("network/nft.rs", "the list of bundles"),
];

/// Words that open, list, change or remove files by their path.
const WORDS: &[&str] =
    &["fs::", "File::", "OpenOptions", "DirBuilder", "WalkDir", ".exists()", ".is_dir()", ".is_file()"];

#[test]
fn only_named_modules_use_files_of_the_host() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut used = Vec::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // What is below is tests.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let name = path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
            if name.ends_with("tests.rs") {
                continue;
            }
            if let Some(line) = code.lines().find(|line| WORDS.iter().any(|word| line.contains(word))) {
                used.push((name, line.trim().to_owned()));
            }
        }
    }
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    let others: Vec<_> = used.iter().filter(|(name, _)| !is_allowed(name)).collect();
    assert!(others.is_empty(), "use flotilla_linux::enter::Files, or say here why not: {others:#?}");
    let unused: Vec<_> =
        ALLOWED.iter().filter(|(name, _)| used.iter().all(|(user, _)| user != name)).collect();
    assert!(unused.is_empty(), "these use no files: {unused:?}");
}
