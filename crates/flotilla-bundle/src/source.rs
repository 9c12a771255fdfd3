//! The seam between a bundle and where its parts come from.
//!
//! A source answers for one component of the lock file at a time. There is one source so far, [`crate::build`];
//! upstream's own downloads will be the next.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flotilla_core::event::Step;
use serde::{Deserialize, Serialize};

use crate::build::Checkout;
use crate::error::{Missing, Result};
use crate::lock::{GoComponent, GoPin, Lock, Pause, Userland};
use crate::part::Parts;

/// One component of the lock file, in the version that a release wants.
#[derive(Debug, Clone)]
pub struct Component {
    pub name: String,
    pub version: String,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Go {
        how: GoComponent,
        pin: GoPin,
    },
    /// Kubernetes as it is in a directory of the user's, not as the lock file pins it.
    Checkout {
        how: GoComponent,
        checkout: Checkout,
    },
    Pause(Pause),
    Userland(Userland),
}

/// Where a part came from, for the manifest.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Provenance {
    /// A Go module through the host's module proxy, checked against `sum`.
    GoModule { module: String, sum: String },
    /// A directory on this machine (`--kubernetes-source`).
    Checkout {
        path: String,
        commit: String,
        /// It was not as that commit has it.
        #[serde(default)]
        modified: bool,
    },
    /// A program of our own, compiled by the host's C compiler.
    OwnProgram { recipe: String },
    /// Packages through the host's apt.
    Debian { packages: Vec<DebianPackage> },
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct DebianPackage {
    pub name: String,
    pub version: String,
    pub sha256: String,
    /// The lock file has this very package. Otherwise apt's signed index vouches for it alone.
    pub pinned: bool,
}

/// Something that can be asked for the parts of a bundle.
pub trait Source: Sync {
    fn name(&self) -> &'static str;

    /// What the host lacks for providing these, all at once. Changes nothing.
    fn missing(&self, components: &[Component]) -> Vec<Missing>;

    /// The programs that leave their mark in a part of this kind, with their versions: another one, another part.
    fn tools(&self, component: &Component) -> BTreeMap<String, String>;

    /// Makes the component's files. `parts` are those provided before it.
    fn provide(
        &self,
        component: &Component,
        parts: &Parts,
        at: &Workplace<'_>,
        step: &Step<'_>,
    ) -> Result<Provenance>;
}

/// Two empty directories for the making of a part.
#[derive(Debug, Clone, Copy)]
pub struct Workplace<'a> {
    /// What is in it in the end is the part.
    pub files: &'a Path,
    /// For everything on the way. Thrown away afterwards, also when we are killed.
    pub scratch: &'a Path,
}

impl Component {
    /// The components of one release, in the order in which they are provided.
    pub fn of_release(lock: &Lock, version: &str) -> Result<Vec<Self>> {
        let release = lock.release(version)?;
        let go = |name: &str, version: &str| -> Result<Self> {
            let (how, pin) = lock.pin(name, version)?;
            let kind = Kind::Go { how: how.clone(), pin: pin.clone() };
            Ok(Self { name: name.to_owned(), version: version.to_owned(), kind })
        };
        let userland = Kind::Userland(lock.userland.clone());
        let pause = Kind::Pause(lock.pause.clone());
        let mut components = vec![
            // First, because runc links a library of it.
            Self { name: "userland".into(), version: "debian".into(), kind: userland },
            Self { name: "pause".into(), version: release.pause.clone(), kind: pause },
            go("kubernetes", version)?,
            go("etcd", &release.etcd)?,
            go("coredns", &release.coredns)?,
        ];
        for (name, version) in &lock.tools {
            components.push(go(name, version)?);
        }
        Ok(components)
    }

    /// How long it took to build on two cores.
    pub fn expected(&self) -> Duration {
        Duration::from_secs(match &self.kind {
            Kind::Go { how, .. } | Kind::Checkout { how, .. } => how.seconds,
            Kind::Pause(pause) => pause.seconds,
            Kind::Userland(userland) => userland.seconds,
        })
    }

    /// Everything in the lock file that shapes it.
    pub(crate) fn inputs(&self) -> String {
        fn json(value: &impl Serialize) -> String {
            serde_json::to_string(value).expect("the lock file is plain data")
        }
        match &self.kind {
            Kind::Go { how, pin } => json(&(how, pin)),
            Kind::Checkout { how, checkout } => json(&(how, checkout.path.display().to_string())),
            Kind::Pause(pause) => pause.recipe.clone(),
            Kind::Userland(userland) => json(userland),
        }
    }

    pub(crate) fn links_c_libraries(&self) -> bool {
        matches!(&self.kind, Kind::Go { how, .. } if how.cgo)
    }

    /// Whether it may differ from the last time under the same name: a checkout is worked on.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self.kind, Kind::Checkout { .. })
    }

    /// As people call it: `etcd v3.7.0`.
    pub fn title(&self) -> String {
        match self.kind {
            Kind::Userland(_) => self.name.clone(),
            _ => format!("{} {}", self.name, self.version),
        }
    }
}
