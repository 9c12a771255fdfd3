//! What is copied from the user's files when a cluster is created: later the files may change or be gone.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use flotilla_core::Authorities;
use flotilla_spec::error::{Requirement, SpecError};
use flotilla_spec::{ClusterFile, ClusterSpec};

use crate::change::FileError;
use crate::{Context, OpError, admission, file};

/// Contents of files that a new cluster's spec names.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// The manifest of the pod network.
    pub(super) manifest: Option<String>,
    pub(super) authorities: Option<Authorities>,
}

impl Copied {
    /// Reads them; `directory` is where the spec's paths begin.
    pub(super) fn read(
        cx: &Context<'_>,
        spec: &ClusterSpec,
        directory: &Path,
        file: Option<&ClusterFile>,
    ) -> Result<Self, OpError> {
        let manifest = spec.network.cni.manifest();
        let manifest = manifest.map(|path| file::read_file(&directory.join(path))).transpose()?;
        let from = spec.certificate_authority.as_ref().map(|path| directory.join(path));
        let authorities = from.as_deref().map(read_authorities).transpose()?;
        if let (Some(from), Some(authorities)) = (from, &authorities)
            && let Some(problem) = cx.bootstrapper.authority_problem(authorities)
        {
            let unmet = SpecError::Unmet {
                requirement: Requirement { node: None, key: "certificateAuthority", item: None },
                why: format!("cannot use the certificate authority in {}: {problem}", from.display()),
                cure:
                    "the directory needs ca.crt and ca.key; other authorities of kubeadm may be beside them \
                       (docs/clusters.md)"
                        .to_owned(),
                code: ("MK_USAGE", 14),
            };
            admission::refuse(vec![unmet], file)?;
        }
        Ok(Self { manifest, authorities })
    }
}

/// Those of the files that exist.
fn read_authorities(from: &Path) -> Result<Authorities, FileError> {
    let mut found = BTreeMap::new();
    for name in Authorities::files() {
        match file::read_file(&from.join(name)) {
            Ok(text) => drop(found.insert(name.to_owned(), text)),
            Err(FileError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Authorities(found))
}
