//! The source that builds every part from pinned source, with the host's own package clients: `go` through its module
//! proxy, `apt` for what is written in C, `gcc` for the little that links C code.
//!
//! No address of a proxy or mirror is known here: the clients know theirs.

pub mod apt;
mod checkout;
mod environment;
mod go;
mod pause;
mod userland;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use flotilla_core::Cancel;
use flotilla_core::event::Step;
use flotilla_linux::host::Command;

use crate::error::{Missing, Result};
use crate::hash;
use crate::part::Parts;
use crate::platform::Platform;
use crate::source::{Component, Kind, Provenance, Source, Workplace};

pub(crate) use checkout::Checkout;

/// How the host's programs are run.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    pub cancel: Cancel,
    /// Set for them beside what they inherit: tests point them at archives of their own.
    pub env: Vec<(String, String)>,
}

impl Clients {
    /// A program of the host that ends with us, and is stopped when a person presses Ctrl-C.
    fn command(&self, program: &str) -> Command {
        let command = Command::new(program).env("LC_ALL", "C").cancel(&self.cancel);
        self.env.iter().fold(command, |command, (name, value)| command.env(name, value))
    }
}

/// Raised when this code makes another part from the same inputs, so that kept ones are not taken for it.
const REVISION: &str = "2";
/// The same for the userland, which is made again in seconds.
const USERLAND_REVISION: &str = "3";
/// What gcc links into every static program, beside what the program names.
const STATIC_LIBRARIES: [&str; 4] = ["crt1.o", "libc.a", "libgcc.a", "libgcc_eh.a"];

/// Builds with what the host has.
#[derive(Debug)]
pub struct BuildSource {
    /// Where the clients keep what they download and compile.
    cache: PathBuf,
    clients: Clients,
    platform: Platform,
    go_version: OnceLock<Option<String>>,
    go_settings: OnceLock<Vec<(String, String)>>,
    gcc_version: OnceLock<Option<String>>,
    static_libraries: OnceLock<Option<String>>,
}

impl BuildSource {
    pub fn new(cache: PathBuf, cancel: Cancel) -> Self {
        Self::with_clients(cache, Clients { cancel, env: Vec::new() })
    }

    fn with_clients(cache: PathBuf, clients: Clients) -> Self {
        Self {
            cache,
            clients,
            platform: Platform::of_host(),
            go_version: OnceLock::new(),
            go_settings: OnceLock::new(),
            gcc_version: OnceLock::new(),
            static_libraries: OnceLock::new(),
        }
    }

    fn command(&self, program: &str) -> Command {
        self.clients.command(program)
    }

    fn go_version(&self) -> Option<&str> {
        // Go counts its runs in a directory there; a question must leave nothing behind.
        let ask =
            || first_line(self.plain_go().env("XDG_CONFIG_HOME", "/dev/null").args(["env", "GOVERSION"]));
        self.go_version.get_or_init(ask).as_deref()
    }

    fn gcc_version(&self) -> Option<&str> {
        let ask = || first_line(self.compiler("gcc").arg("-dumpfullversion"));
        self.gcc_version.get_or_init(ask).as_deref()
    }

    /// Where gcc has a file that it links; none if it lacks that file.
    fn linked_file(&self, name: &str) -> Option<PathBuf> {
        // An unknown file is printed as it was asked for, a known one with its path.
        let path = first_line(self.compiler("gcc").arg(format!("-print-file-name={name}")));
        path.filter(|path| path != name).map(PathBuf::from)
    }

    /// A checksum of the C library, so that a fixed one reaches the programs that have it inside.
    fn static_libraries(&self) -> Option<&str> {
        let sum = || {
            let sums =
                STATIC_LIBRARIES.iter().filter_map(|name| hash::of_file(&self.linked_file(name)?).ok());
            Some(hash::of_bytes(sums.collect::<Vec<_>>().concat().as_bytes())[..16].to_owned())
        };
        self.static_libraries.get_or_init(sum).as_deref()
    }
}

fn first_line(command: Command) -> Option<String> {
    let output = command.current_dir("/").run().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}

impl Source for BuildSource {
    fn name(&self) -> &'static str {
        "build"
    }

    fn missing(&self, components: &[Component]) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut lacks = |what: String, cure: &str| missing.push(Missing { what, cure: cure.to_owned() });
        let wanted = go::newest_language(components);
        match self.go_version() {
            None => lacks("`go` is not in the PATH".into(), "install Go: https://go.dev/dl"),
            Some(have) if go::older(have, &wanted) => {
                lacks(
                    format!("{have} is too old: go{wanted} is required"),
                    "install a newer Go: https://go.dev/dl",
                );
            }
            Some(_) => {}
        }
        match self.gcc_version() {
            None => lacks(
                "`gcc` is not in the PATH".into(),
                "install a C compiler: apt-get install gcc libc6-dev",
            ),
            Some(_) if self.linked_file("libc.a").is_none() => {
                lacks("the static C library is missing".into(), "install it: apt-get install libc6-dev");
            }
            Some(_) => {}
        }
        for program in ["apt-get", "dpkg-deb"] {
            if first_line(self.command(program).arg("--version")).is_none() {
                lacks(
                    format!("`{program}` is not in the PATH"),
                    "build on Debian, Ubuntu or another host with apt",
                );
            }
        }
        missing
    }

    fn tools(&self, component: &Component) -> BTreeMap<String, String> {
        let revision = match component.kind {
            Kind::Userland(_) => USERLAND_REVISION,
            _ => REVISION,
        };
        let mut tools = BTreeMap::from([
            ("arch".to_owned(), std::env::consts::ARCH.to_owned()),
            ("flotilla-build".to_owned(), revision.to_owned()),
        ]);
        let mut add = |name: &str, version: Option<&str>| {
            tools.insert(name.to_owned(), version.unwrap_or("none").to_owned());
        };
        let is_c = match &component.kind {
            Kind::Go { how, .. } | Kind::Checkout { how, .. } => {
                add("go", self.go_version());
                how.cgo
            }
            Kind::Pause(_) => true,
            Kind::Userland(_) => {
                add("packages", Some(&self.platform.to_string()));
                false
            }
        };
        if is_c {
            add("gcc", self.gcc_version());
            add("libc", self.static_libraries());
        }
        tools
    }

    fn provide(
        &self,
        component: &Component,
        parts: &Parts,
        at: &Workplace<'_>,
        step: &Step<'_>,
    ) -> Result<Provenance> {
        match &component.kind {
            Kind::Go { how, pin } => self.build_module(component, (how, pin), parts, at, step),
            Kind::Checkout { how, checkout } => self.build_checkout(component, how, checkout, at, step),
            Kind::Pause(pause) => self.build_pause(component, pause, at),
            Kind::Userland(userland) => self.unpack_userland(userland, at, step),
        }
    }
}

#[cfg(test)]
mod tests;
