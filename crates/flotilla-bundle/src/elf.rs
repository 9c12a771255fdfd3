//! Which libraries a program is linked to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, elf};

use crate::error::{At, BundleError, Result};
use crate::unpack;

/// The libraries and the loader that these programs need, found in `root`: paths relative to it, links to a
/// library included with the library.
pub(crate) fn libraries(
    root: &Path,
    programs: impl IntoIterator<Item = PathBuf>,
) -> Result<BTreeSet<PathBuf>> {
    let directories = library_directories(root);
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = programs.into_iter().collect();
    while let Some(program) = open.pop() {
        for name in needed(&root.join(&program))? {
            // The loader is asked for by its path, libraries by name.
            let library = Some(PathBuf::from(name.trim_start_matches('/')))
                .filter(|_| name.starts_with('/'))
                .into_iter()
                .chain(directories.iter().map(|directory| directory.join(&name)))
                .find(|path| root.join(path).exists())
                .ok_or_else(|| BundleError::Library {
                    program: program.display().to_string(),
                    library: name,
                })?;
            for path in with_target(root, library)? {
                if found.insert(path.clone()) {
                    open.push(path);
                }
            }
        }
    }
    Ok(found)
}

/// Names of the libraries in the dynamic section, and the path of the loader. Empty for what is not a linked program.
fn needed(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).at("read", path)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(Vec::new());
    }
    names(&bytes).map_err(|source| BundleError::Elf { path: path.to_owned(), source })
}

fn names(bytes: &[u8]) -> object::Result<Vec<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let (endian, data) = (file.endian(), file.data());
    let mut names = Vec::new();
    for segment in file.elf_header().program_headers(endian, data)? {
        use object::read::elf::ProgramHeader;
        if let Some(loader) = segment.interpreter(endian, data)? {
            names.push(format!("/usr{}", String::from_utf8_lossy(loader)));
        }
    }
    let sections = file.elf_header().sections(endian, data)?;
    if let Some((dynamic, strings)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for entry in dynamic {
            use object::read::elf::Dyn;
            if entry.tag(endian) == elf::DT_NEEDED {
                let name = entry.string(endian, strings)?;
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Ok(names)
}

/// A path and, where it is a link, what it leads to.
fn with_target(root: &Path, path: PathBuf) -> Result<Vec<PathBuf>> {
    let full = root.join(&path);
    if !full.is_symlink() {
        return Ok(vec![path]);
    }
    let target = fs::read_link(&full).at("read", &full)?;
    let mut paths = with_target(root, unpack::followed(&path, &target))?;
    paths.push(path);
    Ok(paths)
}

/// Where Debian's loader looks: the multiarch directory first.
fn library_directories(root: &Path) -> Vec<PathBuf> {
    [format!("usr/lib/{}", multiarch()), "usr/lib".into(), "usr/lib64".into()]
        .into_iter()
        .map(PathBuf::from)
        .filter(|directory| root.join(directory).is_dir())
        .collect()
}

/// Debian's name for this machine's kind of library.
pub(crate) fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}
