use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a directory for its owner alone, with those above it; one that exists is a success. Others may delete it at the
/// same time: then it is made again.
pub fn make_directory(path: &Path) -> io::Result<()> {
    loop {
        match DirBuilder::new().recursive(true).mode(0o700).create(path) {
            // It existed when it was to be made, and was deleted before it was looked at.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_gone(path) => {}
            made => return made,
        }
    }
}

fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_for_its_owner_alone_and_may_exist() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        make_directory(&path).unwrap();
        make_directory(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.join("file"), "").unwrap();
        let error = make_directory(&path.join("file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_directory_that_others_delete_meanwhile_is_made_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        std::thread::scope(|scope| {
            let deletes = scope.spawn(|| {
                for _ in 0..2000 {
                    let _ = fs::remove_dir(&path);
                }
            });
            while !deletes.is_finished() {
                make_directory(&path).unwrap();
            }
        });
    }
}
