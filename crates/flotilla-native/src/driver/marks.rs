//! The marks that earlier releases made in a node's own `/var`, to know what the node is to its cluster. The node can
//! forge and replace them, so they are read only until there is a record.

use std::io;
use std::path::{Path, PathBuf};

use flotilla_core::Membership;
use flotilla_linux::enter::{Files, Found};

const DIRECTORY: &str = "lib/flotilla";

/// A machine may have several, if it was killed between them: the first one counts.
const MARKS: [(&str, Membership); 4] = [
    ("initialised", Membership::Member),
    ("joined", Membership::Member),
    ("founded", Membership::InitialMember),
    ("founding", Membership::Founding),
];

/// What the marks say; or the path of something that is at the place of one and was not made by Flotilla. No mark is
/// read, so that neither a pipe nor a large file can hold us up.
pub(super) fn read(var: &Path) -> io::Result<Result<Membership, PathBuf>> {
    let files = Files::below(var)?;
    for (name, membership) in MARKS {
        let path = Path::new(DIRECTORY).join(name);
        match files.look(&path)? {
            Found::Nothing => {}
            Found::File => return Ok(Ok(membership)),
            Found::Other => return Ok(Err(var.join(path))),
        }
    }
    Ok(Ok(Membership::None))
}

/// Removes the marks, as far as they exist.
pub(super) fn remove(var: &Path) -> io::Result<()> {
    let files = Files::below(var)?;
    MARKS.iter().try_for_each(|(name, _)| files.remove(&Path::new(DIRECTORY).join(name)))
}
