//! What is to be different about a node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flotilla_spec::error::SpecError;
use flotilla_spec::{Cpus, HostMount, HostPort, Labels, Memory, NodeSpec, Taint};
use serde::{Deserialize, Serialize};

/// What a node is to have of its own. What is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    pub cpus: Option<Cpus>,
    pub memory: Option<Memory>,
    pub disk: Option<u64>,
    /// Labels go by their key.
    pub labels: Edits<Labels, String>,
    pub taints: Edits<Taint, GoneTaint>,
    /// Mounts go by their directory in the node.
    pub mounts: Edits<HostMount, PathBuf>,
    pub ports: Edits<HostPort, HostPort>,
}

/// What comes, and what goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edits<Come, Go> {
    pub come: Vec<Come>,
    pub go: Vec<Go>,
}

impl<Come, Go> Default for Edits<Come, Go> {
    fn default() -> Self {
        Self { come: Vec::new(), go: Vec::new() }
    }
}

/// Taints with a key; with one effect, or with any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneTaint {
    pub key: String,
    pub effect: Option<String>,
}

impl Settings {
    pub fn apply_to(&self, node: &mut NodeSpec) -> Result<(), SpecError> {
        node.cpus = self.cpus.unwrap_or(node.cpus);
        node.memory = self.memory.unwrap_or(node.memory);
        node.disk = self.disk.or(node.disk);

        let mut labels = BTreeMap::from(node.labels.clone());
        labels.retain(|key, _| !self.labels.go.contains(key));
        labels.extend(self.labels.come.iter().cloned().flat_map(BTreeMap::from));
        node.labels = labels.try_into()?;

        node.taints.retain(|taint| !self.taints.go.iter().any(|gone| gone.is(taint)));
        for taint in &self.taints.come {
            let place = |known: &Taint| (known.key(), known.effect()) == (taint.key(), taint.effect());
            match node.taints.iter_mut().find(|known| place(known)) {
                Some(known) => known.clone_from(taint),
                None => node.taints.push(taint.clone()),
            }
        }
        // Two new ones in one place are not settled here: the check of the spec tells.
        let Edits { come, go } = &self.mounts;
        let replaced =
            |target: &PathBuf| go.contains(target) || come.iter().any(|mount| mount.target == *target);
        node.mounts.retain(|mount| !replaced(&mount.target));
        node.mounts.extend_from_slice(come);

        let Edits { come, go } = &self.ports;
        let closes =
            |gone: &HostPort, known: &HostPort| (gone.host, gone.protocol) == (known.host, known.protocol);
        node.ports.retain(|known| !go.iter().any(|gone| closes(gone, known)));
        node.ports.retain(|known| !come.iter().any(|port| port.collides(known)));
        node.ports.extend_from_slice(come);
        Ok(())
    }
}

impl GoneTaint {
    fn is(&self, taint: &Taint) -> bool {
        self.key == taint.key() && self.effect.as_deref().is_none_or(|effect| effect == taint.effect())
    }
}
