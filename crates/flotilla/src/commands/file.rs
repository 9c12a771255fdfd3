//! What commands about a cluster's file share.

mod error;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flotilla_bundle::BundleStore;
use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::change::{self, Change};
use flotilla_spec::{ClusterFile, ClusterSpec, NodeSpec};
use serde_json::{Value, json};

use crate::cluster::{Cx, prepare, this_host};
use crate::screen::Screen;
use crate::wiring::Wiring;

pub(crate) use error::FileError;

/// A file that is longer describes no cluster.
const LONGEST: u64 = 1 << 20;

/// Reads a file, and prepares for a command about its cluster. Touches nothing.
pub(crate) fn open<'a>(
    profile: Option<&str>,
    path: &Path,
    screen: &'a Screen,
    wiring: &'a Wiring,
) -> Result<(Cx<'a>, ClusterFile), OpError> {
    let text = read(path)?;
    let newest = wiring.bundles.default_version();
    let file =
        ClusterFile::read_on(&name_of(path), &text, &newest, &wiring.host).map_err(EngineError::Spec)?;
    if let Some(given) = profile.filter(|given| *given != file.name.as_ref()) {
        let (file, given) = (file.name.to_string(), given.to_owned());
        return Err(FileError::OtherCluster { file, given }.into());
    }
    Ok((Cx::new(file.name.as_ref(), screen, wiring)?, file))
}

/// How a file would change a cluster, or what it would make where there is none.
pub(crate) struct Plan {
    pub(crate) wanted: ClusterSpec,
    pub(crate) changes: Vec<Change>,
    /// What asked for it, if that was a file.
    pub(crate) file: Option<ClusterFile>,
}

impl Plan {
    /// Everything wrong with it is told; whether it can be done is [`Plan::feasible`].
    pub(crate) fn new(cx: &Cx, file: &ClusterFile, cluster: Option<&Cluster>) -> Result<Self, OpError> {
        let (known, wanted) = if let Some(cluster) = cluster {
            let known = with_chosen_ranges(cluster);
            let wanted = file.expanded_over(&known);
            (known, wanted)
        } else {
            let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
            let wanted = file.expanded(&bundle_store.default_version().parse()?);
            (ClusterSpec { nodes: Vec::new(), ..wanted.clone() }, wanted)
        };
        let mut problems = file.check(&wanted, &this_host());
        if cluster.is_some() {
            problems = known.new_problems(problems, &this_host());
        }
        if !problems.is_empty() {
            return Err(EngineError::Spec(problems).into());
        }
        Ok(Self { changes: change::changes(&known, &wanted), wanted, file: Some(file.clone()) })
    }

    /// Refuses it if any of it cannot be done to that cluster: before anybody is asked, and before a node is stopped for
    /// it.
    pub(crate) fn feasible(&self, cx: &Cx, cluster: &Cluster) -> Result<(), OpError> {
        let refused: Vec<_> = self.changes.iter().filter(|change| change.obstacle().is_some()).collect();
        if refused.is_empty() {
            return self.check(cx, cluster);
        }
        let renewed: Option<BTreeSet<_>> = refused.iter().map(|change| change.renews()).collect();
        let workers = renewed.unwrap_or_default().into_iter().cloned().collect();
        let changes = refused.iter().map(ToString::to_string).collect();
        Err(FileError::Impossible { cluster: cx.name.clone(), changes, workers }.into())
    }

    /// Refuses what new nodes, or new wishes of others, cannot have of the host.
    pub(crate) fn check(&self, cx: &Cx, cluster: &Cluster) -> Result<(), OpError> {
        let bundles = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
        let is_new = |node: &&NodeSpec| !cluster.spec.nodes.iter().any(|known| known.name == node.name);
        let new = self.wanted.nodes.iter().filter(is_new);
        let mut problems = prepare::bundle_problems(&bundles, &self.wanted, new)?;
        let mut wanted = Cluster { spec: self.wanted.clone(), ..cluster.clone() };
        problems.extend(wanted.allocate().err());
        problems.extend(prepare::host_problems(cx, &wanted)?);
        prepare::refuse(problems, self.file.as_ref())
    }

    /// A line for each change.
    pub(crate) fn lines(&self) -> String {
        self.changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn to_json(&self) -> Value {
        let changes = self.changes.iter().map(|change| {
            let mut value = json!(change);
            value["text"] = json!(change.to_string());
            value["possible"] = json!(change.obstacle().is_none());
            value
        });
        json!({"cluster": self.wanted.name.as_ref(), "changes": changes.collect::<Vec<_>>()})
    }
}

/// A cluster's spec with the ranges that were chosen for it: a file may name them as well.
fn with_chosen_ranges(cluster: &Cluster) -> ClusterSpec {
    let mut spec = cluster.spec.clone();
    spec.network.subnet = Some(cluster.allocations.subnet);
    spec.network.pod_subnet = Some(cluster.allocations.pod_subnet);
    spec
}

/// What errors call the file.
pub(crate) fn name_of(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A file's text, or that of standard input.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Read { file: name_of(path), source };
    let reader: Box<dyn Read> =
        if is_stdin(path) { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(failed)?) };
    let mut text = String::new();
    reader.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(FileError::TooLong { file: name_of(path) });
    }
    Ok(text)
}
