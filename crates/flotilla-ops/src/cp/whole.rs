//! A file of the host that appears whole or not at all.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flotilla_engine::EngineError;

/// How the names of files begin that are not whole yet.
const UNFINISHED: &str = ".flotilla-cp-";

/// Lets `fill` write a file, then gives it its mode and its name in `folder`, where it replaces any other file.
///
/// Until then it is for its owner alone, since it may be a key, and has a name that no file of the user and no other
/// copy has.
pub(super) async fn filled_in(
    folder: &Path,
    name: &OsStr,
    mode: u32,
    unwritable: impl Fn(io::Error) -> EngineError,
    fill: impl AsyncFnOnce(File) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(&unwritable)?;
    fill(unfinished.as_file().try_clone().map_err(&unwritable)?).await?;
    unfinished.as_file().set_permissions(Permissions::from_mode(mode)).map_err(&unwritable)?;
    unfinished.persist(folder.join(name)).map_err(|error| unwritable(error.error))?;
    Ok(())
}
