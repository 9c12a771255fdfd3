//! `flotilla bundle show`

use flotilla_bundle::Shelf;
use flotilla_bundle::error::size;
use flotilla_bundle::source::Provenance;

use crate::args::WhichArgs;
use crate::failure::Failure;
use crate::screen::{Screen, table};

pub(crate) fn run(shelf: &Shelf, args: &WhichArgs, screen: &Screen) -> Result<(), Failure> {
    let bundle = shelf.find(&args.which)?;
    if screen.is_json() {
        screen.json(&bundle);
        return Ok(());
    }
    let manifest = &bundle.manifest;
    let sizes = manifest.sizes;
    let shared = (sizes.bin + sizes.rootfs + sizes.store).saturating_sub(sizes.on_disk);
    screen.line(&format!("Kubernetes:    {} ({})", manifest.kubernetes, manifest.architecture));
    screen.line(&format!("Digest:        sha256:{}", manifest.digest));
    screen.line(&format!("Made:          {}, source {}", manifest.created, manifest.source));
    screen.line(&format!("Folder:        {}", bundle.path.display()));
    screen.line(&format!(
        "Size on disk:  {}: rootfs {}, image store {}, kubectl for the host {}; {} of it is in two places and stored once",
        size(sizes.on_disk),
        size(sizes.rootfs),
        size(sizes.store),
        size(sizes.bin),
        size(shared)
    ));
    let components = manifest.components.iter().map(|component| {
        let from = match &component.provenance {
            Provenance::GoModule { module, .. } => format!("Go module {module}"),
            Provenance::Checkout { path, commit } => {
                format!("checkout {path} at {}", commit.get(..12).unwrap_or(commit))
            }
            Provenance::OwnProgram { .. } => "flotilla's own program".into(),
            Provenance::Debian { packages } => {
                let unpinned = packages.iter().filter(|package| !package.pinned).count();
                let note = if unpinned > 0 { format!(", {unpinned} not in the lock file") } else { String::new() };
                format!("{} Debian packages{note}", packages.len())
            }
        };
        vec![component.name.clone(), component.version.clone(), size(component.bytes), from]
    });
    screen.line("");
    screen.line(&table(&["COMPONENT", "VERSION", "SIZE", "FROM"], components));
    screen.line("");
    screen.line("IMAGES");
    for image in &manifest.images {
        screen.line(&format!("  {image}"));
    }
    for varies in &manifest.varies {
        screen.note(&format!("{} differs between two builds: {}", varies.path, varies.why));
    }
    Ok(())
}
