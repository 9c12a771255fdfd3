//! The one place that reads the environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::owned::Directory;

const MINIKUBE: &str = ".minikube";

/// What the environment says.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The state directory.
    pub home: PathBuf,
    /// Whether bars may be drawn on a terminal.
    pub progress: bool,
    /// Where the user's own files are.
    pub user_home: PathBuf,
    /// The user's `KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// Who gets the files that are made in the user's home, if that is not who runs us: who called sudo.
    pub owner: Option<(u32, u32)>,
    /// `MINIKUBE_HOME`: where tools for minikube look for logs and profiles.
    pub minikube_home: Option<PathBuf>,
    /// The name of the user, also with sudo.
    pub user: Option<String>,
    /// The kind of terminal, for programs in a node.
    pub term: Option<String>,
    /// This program: root may not find it in its own `PATH`.
    pub program: PathBuf,
}

impl Settings {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn from_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = set("FLOTILLA_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".flotilla")))
            .unwrap_or_else(|| PathBuf::from("/var/lib/flotilla"));
        let user_home = set("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
        let number = |name: &str| set(name)?.to_str()?.parse::<u32>().ok();
        let caller = number("SUDO_UID").zip(number("SUDO_GID"));
        // With sudo's own HOME the files are root's, as everything there.
        let owner =
            caller.filter(|(uid, _)| std::fs::metadata(&user_home).is_ok_and(|home| home.uid() == *uid));
        Self {
            kubeconfig: set("KUBECONFIG"),
            owner,
            minikube_home: set("MINIKUBE_HOME").map(PathBuf::from),
            user: set("SUDO_USER").or_else(|| set("USER")).and_then(|name| name.into_string().ok()),
            term: set("TERM").and_then(|term| term.into_string().ok()),
            user_home,
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("flotilla")),
            home: std::path::absolute(&home).unwrap_or(home),
            progress: set("FLOTILLA_NO_PROGRESS").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }

    /// Opens the directory `.minikube`, where tools for minikube look. It is created, and so is the one that it is in, as minikube does.
    pub(crate) fn minikube_directory(&self) -> io::Result<Directory> {
        let home = self.minikube_home.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let directory = Directory::open_or_create(home, self.owner)?;
        if home.ends_with(MINIKUBE) { Ok(directory) } else { directory.below(MINIKUBE) }
    }

    /// Lets who called sudo look into the state directory, if it is in their home: root has made it, and only for itself.
    /// What is in it stays root's.
    pub(crate) fn share_home(&self) {
        let Some((uid, gid)) = self.owner.filter(|_| self.home.starts_with(&self.user_home)) else { return };
        let is_roots =
            std::fs::symlink_metadata(&self.home).is_ok_and(|home| home.is_dir() && home.uid() == 0);
        if is_roots {
            // If it cannot be, `bundle list` asks for sudo as everything else does.
            let _ = std::os::unix::fs::lchown(&self.home, Some(uid), Some(gid));
        }
    }
}
