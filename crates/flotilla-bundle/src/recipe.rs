//! The files in `bundle/`, compiled in: the lock file and what the build source builds from.

use std::path::Path;

use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};

use crate::error::{At, Result};

/// `bundle/` of the repository.
#[derive(RustEmbed)]
#[folder = "../../bundle"]
struct Files;

/// One file below `bundle/`.
#[derive(Debug, Clone)]
pub struct RecipeFile {
    /// Where the build wants it: the path below the directory it was asked for.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The lock file's text.
pub fn lock_text() -> String {
    let file = Files::get("lock.toml").expect("bundle/lock.toml is compiled in");
    String::from_utf8(file.data.into_owned()).expect("the lock file is UTF-8")
}

/// The module that builds one version of a Go component: its go.mod and go.sum, and the sources all versions share.
pub fn go_module(name: &str, version: &str) -> Vec<RecipeFile> {
    let mut files = below(&format!("go/{name}/{version}/"));
    files.extend(below(&format!("go/{name}/")).into_iter().filter(|file| !file.name.contains('/')));
    files
}

/// Our own pause program.
pub fn pause() -> Vec<RecipeFile> {
    below("pause/")
}

/// What a node's root holds beside programs and libraries.
pub fn rootfs() -> Vec<RecipeFile> {
    below("rootfs/")
}

/// SHA-256 over names and contents, as `recipe` in the lock file.
pub fn digest(files: &[RecipeFile]) -> String {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{} {}\n", file.name, file.bytes.len()));
        hash.update(&file.bytes);
    }
    crate::hash::hex(&hash.finalize())
}

/// Writes the files into a directory.
pub(crate) fn write(files: &[RecipeFile], directory: &Path) -> Result<()> {
    for file in files {
        let path = directory.join(&file.name);
        std::fs::write(&path, &file.bytes).at("write", &path)?;
    }
    Ok(())
}

fn below(prefix: &str) -> Vec<RecipeFile> {
    let mut files: Vec<_> = Files::iter()
        .filter_map(|path| {
            let name = path.strip_prefix(prefix)?.to_owned();
            let bytes = Files::get(&path).expect("a file just listed").data.into_owned();
            Some(RecipeFile { name, bytes })
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}
